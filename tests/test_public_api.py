import pytest

import locuscore
from locuscore import engines


def capitals_first(name):
    return not name.isupper(), not name[0].isupper(), name


def test_exports_are_sorted_and_complete():
    assert locuscore.__all__ == sorted(locuscore.__all__, key=capitals_first)
    for name in locuscore.__all__:
        assert getattr(locuscore, name).__doc__


def test_engines_are_listed_and_loaded_lazily():
    assert engines.__all__ == sorted(engines.__all__, key=capitals_first)
    assert set(engines.__all__) == set(engines._MODULES) | {"default_engine"}
    for name in set(engines.__all__) - set(engines._EXTRAS):
        assert getattr(engines, name).__doc__


@pytest.mark.extra
def test_engines_of_an_extra_are_loaded_lazily():
    for name in set(engines.__all__) & set(engines._EXTRAS):
        assert getattr(engines, name).__doc__
