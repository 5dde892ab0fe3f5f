"""Tests and tables of the benchmark's report."""

import numpy as np
import pytest

from helpers import assert_close

pytestmark = pytest.mark.extra


def test_nadeau_bengio_by_hand():
    from scipy.stats import t

    from benchmarks.paper.comparisons import nadeau_bengio

    gap = np.array([0.01, 0.03, 0.02, 0.04])
    variance = (1 / 4 + 1 / 9) * np.var(gap, ddof=1)
    assert_close(nadeau_bengio(gap), t.sf(0.025 / np.sqrt(variance), 3), rtol=1e-12)
    assert nadeau_bengio(np.zeros(5)) == 1.0
    assert np.isnan(nadeau_bengio(np.array([0.1, 0.1])))


def test_holm_by_hand():
    from benchmarks.paper.comparisons import holm

    adjusted = holm(np.array([0.04, 0.01, np.nan, 0.03]))
    np.testing.assert_allclose(adjusted, [0.06, 0.03, np.nan, 0.06])


def test_the_papers_tables_are_complete():
    from benchmarks.datasets import PAPER
    from benchmarks.paper.summary import paper

    tables = paper()["tables"]
    assert len(tables) == 7
    for table in tables.values():
        assert sorted(table["rows"]) == PAPER
        assert all(set(row) == set(table["columns"]) for row in table["rows"].values())
    assert tables["alpha_rate"]["rows"]["wec"]["LOCUS MDN"] == [8.2, 7.0, 9.2]
    assert tables["tau_rate"]["rows"]["protein"]["LOCUS BART gamma"] == [None, None, None]
    assert len(paper()["homes"]) == 6


def test_the_best_cell_of_the_paper_is_over_both_tuned_tables():
    from benchmarks.paper.comparisons import best_of_paper

    assert best_of_paper("airfoil") == (22.2, "LOCUS BART gamma, alpha")
    assert best_of_paper("homes")[0] == 18.8


def made_up(dataset, seed, method, rate):
    curve = [rate] * 19
    return {
        "dataset": dataset,
        "seed": seed,
        "method": method,
        "n_test": 100,
        "n2": 199,
        "k": 180,
        "covered": 90,
        "coverage": 0.9,
        "pinball": 0.1,
        "mean_loss": 1.0,
        "fit_seconds": 1.0,
        "score_seconds": 0.1,
        **{f"{kind}_{key}": rate for kind in ("lambda", "alpha") for key in ("rate", "area")},
        **{f"{kind}_tail70": rate for kind in ("lambda", "alpha")},
        **{f"{kind}_acceptance": 0.7 for kind in ("lambda", "alpha", "tau")},
        "tau_rate": 0.1,
        "lambda_curve": curve,
        "alpha_curve": curve,
    }


@pytest.fixture
def summary():
    from benchmarks.paper.summary import Summary

    rng = np.random.default_rng(0)
    rates = {"Locus": 0.2, "LOCUS BART": 0.24, "spread of g": 0.15, "IFlag": 0.3}
    return Summary(
        made_up(dataset, seed, method, rate + 0.005 * rng.normal())
        for dataset in ("concrete", "homes", "meps21")
        for method, rate in rates.items()
        for seed in range(5)
    )


def test_a_lost_comparison_is_found(summary):
    from benchmarks.paper.comparisons import differences

    lost = {(one.rival, one.dataset) for one in differences(summary) if one.lost}
    assert lost == {("spread of g", d) for d in ("concrete", "homes", "meps21")}


def test_a_smaller_family_is_less_cautious_and_a_smaller_loss_goes_unseen(summary):
    from benchmarks.paper.comparisons import LEVEL, detectable, differences

    found = differences(summary)
    assert all(one.holm_of_dataset <= one.holm for one in found)
    assert any(one.holm_of_dataset < one.holm for one in found)
    for dataset in summary.datasets:
        least = detectable(found, dataset)
        assert 0 < least < 0.05
        assert all(one.holm > LEVEL for one in found if one.dataset == dataset and one.mean < least)


def test_coverage_below_its_law_is_found(summary):
    from benchmarks.paper.comparisons import coverage_checks
    from benchmarks.paper.summary import Summary

    assert all(check.n_low == 0 for check in coverage_checks(summary))
    low = [made_up("homes", s, "Locus", 0.2) | {"covered": 60, "coverage": 0.6} for s in range(3)]
    assert coverage_checks(Summary(low))[0].n_low == 3


def test_the_backends_of_bart_are_compared_on_shared_seeds(summary):
    from benchmarks.paper.summary import Summary
    from benchmarks.paper.tables import backend_table

    assert backend_table(summary) == []
    rates = {"LOCUS BART": [0.1, 0.2, 0.9], "LOCUS PyMCBART": [0.3, 0.4]}
    pair = [made_up("concrete", s, m, r) for m, rs in rates.items() for s, r in enumerate(rs)]
    (row,) = (line for line in backend_table(Summary(pair)) if "tuned lambda" in line)
    assert "| 25.3 (18.7; 29.3) | 15.0 (10.5; 19.5) | 35.0 (30.5; 39.5) | 2 |" in row


def test_the_report_says_what_is_missing(summary, tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.paper import figures
    from benchmarks.paper.report import build

    pictures = figures.draw(summary, tmp_path)
    text = "\n".join(build(summary, pictures))
    assert "- wec: data not available" in text
    assert "meps21 (stand-in for meps19)" in text
    assert "| meps19 | paper |" in text
    assert "- airfoil: no records yet" in text
    assert "| no other method significantly better by 0.5 points | 6 | no |" in text
    assert "| lowest mean rank, tuned rate | 2.00, spread of g 1.00 | no |" in text
    assert all((tmp_path / name).exists() for name in ("lambda_rate.png", "curves.png"))
