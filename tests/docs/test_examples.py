"""Every script of the gallery runs, uses public names only, and ends with a picture."""

import ast
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.extra

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))


def blocks(source):
    """Parts between the marks of the gallery, each behind as many empty lines as precede it."""
    lines = source.split("\n")
    starts = [0, *(i for i, line in enumerate(lines) if line == "# %%"), len(lines)]
    return ["\n" * a + "\n".join(lines[a:b]) for a, b in pairwise(starts)]


def private_names(source):
    """Names of ours that begin with an underscore, imported or looked up."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("locuscore"):
            parts = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            parts = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id == "self"
        ):
            parts = [node.attr]
        else:
            continue
        found |= {part for part in parts if part.startswith("_")}
    return found


# What each script should have found: the claim its text makes.
CLAIMS = {
    "plot_llm_1_topics": lambda m: (
        m["bad"][m["sent"]["certified by topic"]].mean()
        < 0.1
        < m["bad"][m["sent"]["judge at least 0.85"]][
            m["new"]["topic"].eq("legal")[m["sent"]["judge at least 0.85"]]
        ].mean()
    ),
    "plot_llm_2_cascade": lambda m: m["bad"] < 0.05 and m["totals"]["cascade"] < 100,
    "plot_1_figure1": lambda m: m["axes"].shape == (4, 2),
    "plot_2_diamonds": lambda m: 0.87 < np.mean(m["errors"] <= m["bound"]) < 0.93,
    "plot_3_cost_matrix": lambda m: (
        set(m["bound"]) <= {0, 10, 500} and np.mean(m["costs"] > m["bound"]) < 0.03
    ),
    "plot_4_prediction_column": lambda m: (
        m["bound"].groupby(m["group"]).median().idxmax() == "old town, evening"
    ),
    "plot_5_certificate": lambda m: (
        m["rule"].standing == "certificate" and m["rates"].conditional < 0.05 < m["rates"].marginal
    ),
    "plot_6_engine": lambda m: set(m["bounds"]) == {"neighbours", "mean loss x shape"},
    "plot_7_operating_point": lambda m: 0 < m["chosen"] < 1,
    "plot_8_groups": lambda m: (
        max(m["shares"]["a rule per group"]) < 0.04 < max(m["shares"]["one rule"])
    ),
    "plot_9_gamma": lambda m: (
        np.median(m["ratio"][m["scarce"] == 0]) > 1.1 > np.median(m["ratio"][m["scarce"] == 3])
    ),
}


def test_every_script_has_a_claim():
    assert [path.stem for path in SCRIPTS] == sorted(CLAIMS)
    assert (FOLDER / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_and_draws(path, monkeypatch, tmp_path):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    module = ModuleType("example")  # a module, so that a class of the script can be pickled
    monkeypatch.setitem(sys.modules, "example", module)
    try:
        n_figures = 0
        for block in blocks(path.read_text(encoding="utf-8")):
            exec(compile(block, str(path), "exec"), module.__dict__)
            # The gallery takes the pictures after each block, so they must be finished there.
            for figure in map(plt.figure, plt.get_fignums()):
                figure.draw_without_rendering()
                assert all(ax.has_data() for ax in figure.axes)
                n_figures += 1
            plt.close("all")
        assert n_figures
    finally:
        plt.close("all")
    assert CLAIMS[path.stem](module.__dict__)
    assert not list(tmp_path.iterdir())  # a script writes nothing


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_narrated_and_uses_public_names(path):
    source = path.read_text(encoding="utf-8")
    title, underline, blank, *_ = ast.get_docstring(ast.parse(source), clean=False).splitlines()[1:]
    assert len(title) == len(underline)
    assert set(underline) == {"="}
    assert not blank
    assert source.count("\n# %%\n") >= 2
    assert not private_names(source)


def test_a_private_name_would_be_noticed():
    assert private_names("from locuscore._locus import Locus") == {"_locus"}
    assert private_names("from locuscore import _locus") == {"_locus"}
    assert private_names("locus._tails(S)") == {"_tails"}
    assert not private_names("self._scaled(S)")
