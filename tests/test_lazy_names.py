"""Names are imported when they are first asked for, and are all there for those who look."""

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import locuscore

PACKAGES = ["locuscore", "locuscore.calibration", "locuscore.draws", "locuscore.engines"]
HEAVY = {"numpy", "pandas", "pyarrow", "scipy", "sklearn"}
LOADED = f"print(sorted({{name.split('.')[0] for name in sys.modules}} & {HEAVY}))"


def loaded_after(code):
    """The heavy packages that a new process has after some code."""
    run = [sys.executable, "-c", f"import sys\n{code}\n{LOADED}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_the_package_itself_imports_nothing_heavy():
    assert loaded_after("import locuscore, locuscore.engines, locuscore.calibration") == []
    assert loaded_after("from locuscore.__main__ import main; main(['--version'])") == []


def test_what_is_imported_would_be_noticed():
    assert "sklearn" in loaded_after("from locuscore import Locus")


@pytest.mark.extra
@pytest.mark.parametrize("words", [["--help"], ["guess"], []])
def test_help_and_wrong_commands_import_nothing_heavy(words):
    assert loaded_after(f"from locuscore.__main__ import main; main({words})") == []


def typed_names(package):
    """Where type checkers find the names of a package: its imports for them alone."""
    tree = ast.parse(Path(importlib.import_module(package).__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.name: one.module for one in imports for alias in one.names}


@pytest.mark.parametrize("package", PACKAGES[:3])
def test_type_checkers_and_python_find_the_same_names(package):
    module = importlib.import_module(package)
    homes = {name: f"{package}.{home}" for name, home in module._HOMES.items()}
    assert homes == typed_names(package)
    assert list(module._HOMES) == module.__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_listed_and_unknown_ones_refused(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'Locuss'"):
        module.Locuss  # noqa: B018 - asking is the test
    assert not hasattr(module, "Locuss")


def test_a_star_import_brings_all_names():
    found = {}
    exec("from locuscore import *", found)
    assert set(locuscore.__all__) <= set(found)


@pytest.mark.parametrize("folder", locuscore._FOLDERS)
def test_folders_can_be_named_at_once(folder):
    code = f"import locuscore; assert locuscore.{folder}.__all__"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_can_be_pickled():
    assert pickle.loads(pickle.dumps(locuscore.tau_rule)) is locuscore.tau_rule
    assert pickle.loads(pickle.dumps(locuscore.Locus)) is locuscore.Locus


def test_help_shows_the_names():
    code = "import locuscore; help(locuscore)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "class Locus(" in done.stdout


def test_locus_imports_no_model_of_scikit_learn():
    """They take as long as all of our own modules, and are imported when first used."""
    code = (
        "import sys; from locuscore import Locus; "
        "sys.exit(not sys.modules.keys().isdisjoint(['sklearn.ensemble', 'sklearn.pipeline']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
