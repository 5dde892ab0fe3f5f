"""Two reports side by side: what changed by more than chance explains."""

import json

import numpy as np
import pytest
from scipy.stats import fisher_exact

from locuscore import Locus, Scorer
from locuscore._shared.multiple_tests import holm
from locuscore.engines import Scale
from locuscore.report import Provenance, compare, report


def rows(seed, n, worse=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(size=n), rng.integers(3, size=n)])
    return X, (0.3 + X[:, 0]) * np.where(X[:, 1] == 2, worse, 1.0) * rng.normal(size=n)


@pytest.fixture(scope="module")
def reports():
    X, y = rows(0, 1500)
    locus = Locus(lambda X: np.zeros(len(X)), engine=Scale(), random_state=0).fit(X, y)
    scorer = Scorer(locus, locus.certify(1.5, 0.1, 0.1))

    def made(seed, worse=1.0, **more):
        X, y = rows(seed, 2000, worse)
        return report(scorer, X, y, groups={"kind": X[:, 1].astype(int)}, noun="homes", **more)

    return made(1, title="Last"), made(2, title="This"), made(3, worse=2.5, title="Worse")


def test_nothing_new_is_called_no_difference(reports):
    last, this, _ = reports
    found = compare(last, this)
    assert not found.differs
    assert found.summary["kind"] == "good"
    assert found.summary["headline"] == "Nothing changed by more than chance explains."
    assert [side["name"] for side in found.summary["reports"]] == ["Last", "This"]


def test_the_tests_are_those_of_the_counts(reports):
    last, _, worse = reports
    found = compare(last, worse).summary
    kinds = [share["kind"] for share in found["shares"]]
    assert kinds == ["acceptance", "conditional", "coverage"]
    p_values = []
    for share in found["shares"]:
        (k, n), (j, m) = ((share[side]["k"], share[side]["n"]) for side in ("before", "after"))
        p_values.append(fisher_exact([[k, n - k], [j, m - j]]).pvalue)
        assert share["p_value"] == pytest.approx(min(1.0, p_values[-1]))
    assert [share["differs"] for share in found["shares"]] == holm(p_values, 0.025).tolist()
    claims = worse.summary["verdict"]["claims"]
    assert found["shares"][1]["after"]["value"] == claims[0]["observed"]
    (part,) = found["parts"]
    assert [row["differs"] for row in part["rows"] if row["group"] == "2"] == [True]
    assert found["kind"] == "bad"
    assert found["headline"].startswith("Worse than before: 2 of 3 main figures and 1 of 3 groups")
    assert "That is more, beyond chance." in found["shares"][1]["sentence"]


def test_files_of_either_kind_are_read(reports, tmp_path):
    last, _, worse = reports
    last.write(tmp_path / "last.html")
    worse.write_json(tmp_path / "worse.json")
    found = compare(tmp_path / "last.html", str(tmp_path / "worse.json"))
    assert found.summary == compare(last.summary, worse).summary
    found.write(tmp_path / "both.html")
    assert "Worse than before" in (tmp_path / "both.html").read_text()
    assert json.loads(found.to_json()) == found.summary
    assert str(found).startswith("Worse than before")


def test_what_is_no_report_is_refused(reports, tmp_path):
    last = reports[0]
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"format": 1, "verdict": {}}))
    page = tmp_path / "page.html"
    page.write_text("<p>Hello</p>")
    for wrong, words in (
        (old, "older version"),
        (page, "no page of a report"),
        ({}, "before must be"),
    ):
        with pytest.raises(ValueError, match=words):
            compare(wrong, last)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("money"),
        lambda s: s.update(unit=5),
        lambda s: s.update(created=None),
        lambda s: s.update(n_rows=1e300),
        lambda s: s["money"]["accepted"].update(n=-1),
        lambda s: s["verdict"].update(claims=[[]]),
        lambda s: s["parts"][0]["rows"][0].update(group=[1]),
    ],
)
def test_a_forged_report_gets_one_error(reports, tmp_path, change):
    last, this, _ = reports
    forged = json.loads(last.to_json())
    change(forged)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(forged))
    with pytest.raises(ValueError, match="Make it again"):
        compare(this, path)


def test_hostile_text_of_a_report_stays_text(reports, tmp_path):
    last, this, _ = reports
    text = "</script><img src=x onerror=alert(1)>{{script}}"
    forged = json.loads(last.to_json()) | {"title": text, "noun": text, "unit": text}
    forged["provenance"] |= {"approved": text, "data": text}
    forged["verdict"] |= {"headline": text, "kind": text}
    for part in forged["parts"]:
        part["name"] = text
    page = compare(this, forged, title=text).to_html()
    assert "<img" not in page
    assert page.count("</script>") == compare(this, last).to_html().count("</script>")
    (tmp_path / "deep.json").write_text('{"a":' * 100_000)
    with pytest.raises(ValueError, match="no summary"):
        compare(this, tmp_path / "deep.json")


def test_the_link_of_a_card_is_a_file_whatever_its_name(reports, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = reports[0]
    last.write("javascript:alert(1)#?.html")
    assert 'href="javascript%3Aalert%281%29%23%3F.html"' in last._repr_html_()


def test_what_makes_a_comparison_doubtful_is_said(reports):
    last, this, _ = reports
    same = {"provenance": last.summary["provenance"] | {"data_digest": "ab"}}
    found = compare(last.summary | same, this.summary | same | {"unit": "kWh"}).summary
    assert "same file of rows" in found["notes"][0]
    assert "Units differ: none and kWh." in found["notes"]
    other = {"provenance": last.summary["provenance"] | {"scorer_digest": "another"}}
    assert compare(last.summary | other, this).summary["notes"] == [
        "The two reports are about different scorers."
    ]
    rough = compare(last.summary | {"has_clusters": True}, reports[2]).summary
    assert not rough["n_differences"]
    assert all(share["p_value"] is None for share in rough["shares"])
    assert "can be compared by an exact test" in rough["headline"]
    assert Provenance().data_digest == ""


@pytest.fixture(scope="module")
def grouped():
    """Reports of one law whose rows fall into groups as told: rows of "wild" lose far more."""
    X = np.random.default_rng(0).uniform(size=(600, 1))
    noise = np.random.default_rng(1).normal(size=600)
    locus = Locus(lambda X: np.zeros(len(X)), engine=Scale(), random_state=0).fit(X, noise)

    def made(labels, seed, alpha=0.1):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=len(labels)) * np.where(labels == "wild", 5.0, 1.0)
        X = rng.uniform(size=(len(labels), 1))
        return report(Scorer(locus, alphas=alpha), X, y, groups={"kind": labels})

    return made


def test_groups_that_are_pooled_are_not_compared(grouped):
    """Pools of other groups differ although no group has changed."""
    big = [f"group {i:02}" for i in range(30)] * 25
    before = grouped(np.array(big + ["calm"] * 30 + ["wild"] * 20), 5)
    after = grouped(np.array(big + ["calm"] * 20), 6)
    shown = [row["group"] for row in before.summary["parts"][0]["rows"]]
    assert shown[0] == "calm"
    assert shown[-1] == "(others)"
    found = compare(before, after).summary
    names = [row["group"] for row in found["parts"][0]["rows"]]
    assert "(others)" not in names
    assert not any(row["differs"] for row in found["parts"][0]["rows"])


def test_groups_with_long_names_that_look_alike_are_not_compared(grouped):
    long = "x" * 300
    labels = np.array([f"{long} calm"] * 100 + [f"{long} b"] * 60 + ["c"] * 50)
    found = compare(grouped(labels, 7), grouped(labels, 8)).summary
    assert [row["group"] for row in found["parts"][0]["rows"]] == ["c"]


def test_parts_by_bounds_of_another_alpha_are_not_compared(grouped):
    labels = np.repeat(["a", "b"], 400)
    same, other = grouped(labels, 9), grouped(labels, 10, alpha=0.4)
    assert compare(same, same).summary["parts"]
    assert compare(same, other).summary["parts"] == []
    assert not compare(same, other).differs
