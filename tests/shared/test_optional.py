"""A missing optional package: one sentence that says what to install."""

import sys

import pytest

from locuscore import engines
from locuscore._shared.optional import require

MISSING = {
    "BART": "bart",
    "BayesianMDN": "mdn",
    "Flow": "flow",
    "FromSkpro": "skpro",
    "MDN": "mdn",
    "PyMCBART": "pymc",
    "VariationalGP": "gp",
}


def test_every_engine_with_an_extra_is_known():
    assert {name: extra for name, (_, extra) in engines._EXTRAS.items()} == MISSING


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_extra_is_one_sentence_with_the_command(name, monkeypatch):
    package, extra = engines._EXTRAS[name]
    monkeypatch.setitem(engines._MODULES, name, "_not_reached")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(engines, name)
    assert str(caught.value) == (
        f"{package} is not installed; run: pip install 'locuscore[{extra}]'"
    )


def test_a_package_that_lacks_its_own_dependency_says_so_itself(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("import a_dependency_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_dependency_that_is_not_there"):
        require("half_installed", extra="bart")
