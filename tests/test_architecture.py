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
    {"draws"},
    {"metrics"},
    {"_laws"},
    {"engines", "_rules", "_inputs"},
    {"calibration"},
    {"_row_scores"},
    {"_row_plans"},
    {"_row_rules", "_stream"},
    {"_row_claims"},
    {"_row_time", "_row_card"},
    {"_locus"},
    {"_archive", "_row_columns", "_scorer_card"},
    {"_scorer"},
    {"__init__"},
    {"arrow"},
    {"datasets", "mlflow", "plots", "report", "spark", "testing", "torch", "watch"},
    {"demo", "service"},
    {"cli"},
    {"__main__"},
]
# Shells stand over the public names. Besides these they may import what has no domain in it, types,
# and their own folder.
SHELLS = {
    *("__main__", "arrow", "cli", "datasets", "demo", "mlflow", "plots", "report", "service"),
    *("spark", "torch", "watch"),
}
OPEN_TO_SHELLS = {"_protocols", "_shared"}
# Private modules that a shell imports all the same, each with the reason.
EXCEPTIONS: dict[str, str] = {}
LEVEL = {module: level for level, layer in enumerate(LAYERS) for module in layer}
OPTIONAL = [
    "catboost",
    "dask",
    "duckdb",
    "lightgbm",
    "matplotlib",
    "mlflow",
    "onnxruntime",
    "pandas",
    "polars",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pydantic_core",
    "pymc",
    "pymc_bart",
    "pyspark",
    "rich",
    "skops",
    "skpro",
    "sqlalchemy",
    "starlette",
    "stochtree",
    "torch",
    "typer",
    "uvicorn",
    "xgboost",
]


def module_of(path):
    """Folder of a file, or its own name at the top."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_names(source):
    """All of our own that a source imports, as lists of the parts below the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # "from locuscore import x" may name a module or a public name.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        yield from (part[1:] or ["__init__"] for part in parts if part[0] == "locuscore")


def imported(source):
    """Modules of our own that a source imports, by the name below the package."""
    found = {first for first, *_ in imported_names(source)}
    return {name if name in LEVEL else "__init__" for name in found}


def private_imports(shell, source):
    """What a shell imports that is private to others."""
    return {
        ".".join(parts)
        for parts in imported_names(source)
        if parts[0] not in {shell, *OPEN_TO_SHELLS}
        and any(part.startswith("_") and not part.endswith("__") for part in parts)
    }


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
        ("_shared", "def f():\n    from locuscore._inputs.schema import Schema"),
        ("engines", "from locuscore._inputs.signals import fit_signals"),
        ("_rules", "from locuscore.engines import Forest"),
        ("_inputs", "from locuscore._rules.rule import FlagRule"),
    ],
)
def test_a_back_edge_would_be_noticed(module, source):
    assert back_edges(module, source)


OF_SHELLS = [path for path in FILES if module_of(path) in SHELLS]


@pytest.mark.parametrize("path", OF_SHELLS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_shells_import_public_names(path):
    assert private_imports(module_of(path), path.read_text()) <= set(EXCEPTIONS)


def test_every_exception_is_needed():
    found = [private_imports(module_of(path), path.read_text()) for path in OF_SHELLS]
    assert set(EXCEPTIONS) == set().union(*found)


@pytest.mark.parametrize(
    "source",
    [
        "from locuscore._scorer import Scorer",
        "from locuscore import _scorer",
        "import locuscore._laws.calibration",
        "from locuscore.report._verdict import verdict_lines",
        "from locuscore.report import _verdict",
    ],
)
def test_a_private_import_of_a_shell_would_be_noticed(source):
    assert private_imports("cli", source)


@pytest.mark.parametrize(
    "source",
    [
        "from locuscore import Scorer, __version__",
        "from locuscore.report import Report",
        "from locuscore.cli._terminal import Terminal",
        "from locuscore._shared.checks import check_alpha",
        "from locuscore._protocols import Rows",
    ],
)
def test_public_names_are_open_to_shells(source):
    assert not private_imports("cli", source)


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


def module_name(path):
    parts = ["locuscore", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def direct_imports(tree):
    """Modules of our own that are imported while a module is read, not later inside a function."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("locuscore"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("locuscore"))


def circle(graph):
    """Modules that import each other in a circle; empty if there are none."""
    open_, done = [], set()

    def visit(name):
        if name in open_:
            return open_[open_.index(name) :]
        if name in done:
            return []
        open_.append(name)
        for target in graph.get(name, ()):
            found = visit(target)
            if found:
                return found
        done.add(open_.pop())
        return []

    return next((found for name in graph if (found := visit(name))), [])


def test_no_module_imports_itself_through_others():
    graph = {
        name: {target for target in direct_imports(ast.parse(path.read_text())) if target != name}
        for name, path in MODULES.items()
    }
    assert circle(graph) == []


def test_a_circle_would_be_noticed():
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"]
