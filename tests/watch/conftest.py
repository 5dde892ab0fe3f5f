from ledger_for_tests import another_url, postgres, url

__all__ = ["another_url", "postgres", "url"]
