def write_page(records):
    pass
