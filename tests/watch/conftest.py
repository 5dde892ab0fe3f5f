from ledger_for_tests import postgres, url

__all__ = ["postgres", "url"]
