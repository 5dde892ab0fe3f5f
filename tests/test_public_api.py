import locuscore
from locuscore import engines


def test_exports_are_sorted_and_complete():
    assert locuscore.__all__ == sorted(locuscore.__all__, key=str)
    for name in locuscore.__all__:
        assert getattr(locuscore, name).__doc__


def test_engines_are_listed_and_loaded_lazily():
    # Names in capitals first, as ruff sorts them.
    assert engines.__all__ == sorted(engines.__all__, key=lambda name: (not name.isupper(), name))
    for name in engines.__all__:
        assert getattr(engines, name).__doc__
