"""Imports point one way, and optional packages are imported only by those who ask for them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import locuscore

PACKAGE = Path(locuscore.__file__).parent

# Folders and modules may import what stands on a lower line only; on one line nobody imports a
# neighbour. Inside a folder modules import each other freely, but in no circle.
LAYERS = [
    {"_protocols"},
    {"_shared"},
    {"draws", "metrics"},
    {"_laws"},
    {"engines", "_rules", "_inputs"},
    {"_scoring"},
    {"_locus"},
    {"_archive"},
    {"_scorer"},
    {"datasets", "testing"},
    {"__init__", "plots", "report", "spark"},
    {"demo", "service"},
    {"cli"},
    {"__main__"},
]
LEVEL = {module: level for level, layer in enumerate(LAYERS) for module in layer}
OPTIONAL = [
    "lightgbm",
    "matplotlib",
    "onnxruntime",
    "pandas",
    "polars",
    "prometheus_client",
    "pyarrow",
    "pydantic_core",
    "pymc",
    "pymc_bart",
    "pyspark",
    "rich",
    "skops",
    "skpro",
    "starlette",
    "stochtree",
    "torch",
    "typer",
    "uvicorn",
]


def module_of(path):
    """Folder of a file, or its own name at the top."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source):
    """Modules of our own that a source imports, by the name below the package."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # "from locuscore import x" may name a module or a public name.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {
            part[1] if len(part) > 1 else "__init__" for part in parts if part[0] == "locuscore"
        }
    known = set(LEVEL)
    return {name if name in known else "__init__" for name in found}


def back_edges(module, source):
    allowed = {name for name in LEVEL if LEVEL[name] < LEVEL[module]} | {module}
    return {(module, target) for target in imported(source) - allowed}


FILES = sorted(path for path in PACKAGE.rglob("*.py"))


def test_every_module_has_its_place():
    assert {module_of(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    assert not back_edges(module_of(path), path.read_text())


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("draws", "from locuscore._locus import Locus"),
        ("draws", "import locuscore._laws.distribution"),
        ("_inputs", "from locuscore import Locus"),
        ("_shared", "def f():\n    from locuscore._inputs.frames import as_rows"),
        ("engines", "from locuscore._inputs.signals import fit_signals"),
        ("_rules", "from locuscore.engines import Forest"),
        ("_inputs", "from locuscore._rules.rule import FlagRule"),
    ],
)
def test_a_back_edge_would_be_noticed(module, source):
    assert back_edges(module, source)


# scikit-learn imports some of these by itself where it finds them; here nobody finds them.
WITHOUT_OPTIONAL = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden())
import numpy as np
import locuscore
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale

X = np.random.default_rng(0).normal(size=(40, 2))
locus = locuscore.Locus(lambda X: X[:, 0], engine=Forest(n_trees=2)).fit(X, X[:, 1])
assert locus.loss_bound(X).shape == (40,)
assert not set({OPTIONAL}) & set(sys.modules)
"""


def test_the_core_works_where_no_optional_package_is():
    run = [sys.executable, "-W", "error", "-c", WITHOUT_OPTIONAL]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
