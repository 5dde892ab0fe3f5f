"""The examples in docstrings give what they show; those of the plots have a test of their own."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import locuscore

ROOT = Path(locuscore.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("locuscore", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.parent.name != "plots" and ">>> " in path.read_text(encoding="utf-8")
)
ON_AN_EXTRA = {
    "locuscore._archive.container",
    "locuscore._archive.manifest",
    "locuscore._archive.predictor_files",
    "locuscore.arrow",
    "locuscore.datasets",
    "locuscore.engines._bart",
    "locuscore.engines._bayesian_mdn",
    "locuscore.engines._flow",
    "locuscore.engines._mdn",
    "locuscore.engines._skpro",
    "locuscore.engines._variational_gp",
    "locuscore.mlflow",
    "locuscore.report",
    "locuscore.service._app",
    "locuscore.service._settings",
    "locuscore.testing._answers",
    "locuscore.torch._layers",
    "locuscore.torch._predictor",
    "locuscore.watch._actions",
    "locuscore.watch._claims",
    "locuscore.watch._plan",
    "locuscore.watch._recorder",
    "locuscore.watch._settings",
    "locuscore.watch._status",
    "locuscore.watch._watch",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.extra if name in ON_AN_EXTRA else ())
        for name in WITH_EXAMPLES
    ],
)
def test_examples_give_what_they_show(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
