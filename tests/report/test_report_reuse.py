"""A report on rows that were used to fit judges nothing, and says so first."""

import numpy as np
import pytest

from archives_for_tests import rows
from locuscore import Locus, Scorer
from locuscore.engines import Forest
from locuscore.report import report, report_batches


def test_rows_of_fit_are_not_judged(scorer):
    found = report(scorer, *rows())
    verdict = found.summary["verdict"]
    assert verdict["kind"] == "bad"
    assert found.is_broken
    assert verdict["sentence"].startswith("These rows were used to fit: 160 of 160")
    assert {claim["verdict"] for claim in verdict["claims"]} == {"not judged"}
    assert verdict["rows_of_fit"]["outcome"] == "used"
    assert all("used to fit" in part["sentence"] for part in found.summary["coverage"])
    assert "used to fit" in str(found)


@pytest.mark.extra
def test_the_page_says_so(scorer):
    page = report(scorer, *rows()).to_html()
    assert "<p><strong>These rows were used to fit" in page


def test_new_rows_are_judged_and_counted(scorer):
    X, y = rows(400, seed=1)
    verdict = report(scorer, X, y).summary["verdict"]
    assert verdict["rows_of_fit"]["n_found"] == 0
    assert verdict["kind"] != "bad"
    assert "not judged" not in {claim["verdict"] for claim in verdict["claims"]}


def test_who_insists_gets_a_verdict_that_says_what_it_is_worth(scorer):
    verdict = report(scorer, *rows(), allow_rows_used_in_fit=True).summary["verdict"]
    assert verdict["kind"] == "warn"
    assert "used to fit" in verdict["sentence"]
    assert {claim["verdict"] for claim in verdict["claims"]} != {"not judged"}


def test_losses_are_known_as_labels_are(scorer):
    X, y = rows()
    z = scorer.locus.losses(X, y)
    verdict = report(scorer, X, losses=z).summary["verdict"]
    assert verdict["rows_of_fit"]["outcome"] == "used"
    assert verdict["kind"] == "bad"
    other = report(scorer, X, losses=z + 1.0).summary["verdict"]
    assert other["rows_of_fit"]["outcome"] == "suspect"
    assert "probably used to fit" in other["sentence"]


def test_logged_losses_are_labels_where_fit_had_them():
    X, y = rows()
    locus = Locus(engine=Forest(n_trees=3), random_state=0).fit_losses(X, np.abs(y))
    verdict = report(Scorer(locus), X, losses=np.abs(y)).summary["verdict"]
    assert verdict["rows_of_fit"]["outcome"] == "used"


def test_a_stream_is_looked_up_as_a_whole(scorer):
    X, y = rows()
    parts = [(X[i : i + 3], y[i : i + 3]) for i in range(0, 90, 3)]
    verdict = report_batches(scorer, parts).summary["verdict"]
    assert verdict["rows_of_fit"]["n_found"] == 90
    assert verdict["rows_of_fit"]["outcome"] == "used"


def test_neither_rows_nor_digests_are_in_the_summary(scorer):
    text = report(scorer, *rows(400, seed=1)).to_json()
    used = scorer.locus.used_rows_
    assert not any(str(int(value)) in text for value in used.inputs.model)
    assert used.salt.hex() not in text
