"""What a report tells people who decide: counts, losses and costs, parts, provenance."""

import datetime
import hashlib

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from helpers import assert_close
from locuscore import Locus, Scorer
from locuscore._shared.share_interval import share_interval
from locuscore.engines import Scale
from locuscore.report import Batch, Costs, Provenance, report, report_batches
from locuscore.report._claims import Claim
from locuscore.report._plain import Wording, claim_sentence, headline
from locuscore.report._times import as_days, periods

TAU, DAY = 1.5, datetime.date(2026, 5, 5)


def rows(rng, n):
    X = np.column_stack([rng.uniform(size=n), rng.integers(3, size=n)])
    return X, (0.3 + X[:, 0]) * rng.normal(size=n)


@pytest.fixture(scope="module")
def locus():
    X, y = rows(np.random.default_rng(0), 1500)
    zero = DummyRegressor(strategy="constant", constant=0.0).fit(X, y)
    return Locus(zero, engine=Scale(), random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def scorer(locus):
    return Scorer(locus, locus.certify(TAU, 0.1, 0.1).until("2026-06-30"))


@pytest.fixture(scope="module")
def fresh():
    return rows(np.random.default_rng(1), 1200)


def days_of(n):
    return np.datetime64("2026-01-15") + np.arange(n) % 150


def told(scorer, fresh, **more):
    X, y = fresh
    groups = {"kind": X[:, 1].astype(int), "side": np.where(X[:, 0] > 0.5, "high", "low")}
    given = {"groups": groups, "time": days_of(len(y)), "created": DAY} | more
    return report(scorer, X, y, **given).summary


def test_losses_of_accepted_and_flagged_are_those_of_the_rows(scorer, fresh):
    X, y = fresh
    money = told(scorer, fresh)["money"]
    z, accepted = np.abs(y), ~np.asarray(scorer(X)["flag"])
    for name, inside in (("accepted", accepted), ("flagged", ~accepted)):
        pile = money[name]
        assert (pile["n"], pile["bad"]) == (inside.sum(), np.sum(z[inside] > TAU))
        assert_close(pile["total"], z[inside].sum(), rtol=1e-12)
        assert_close(pile["worst"], z[inside].max())
    assert money["costs"] is None
    assert f"accepted {accepted.sum():,} of 1,200 rows" in money["sentences"][0]


def test_review_is_weighed_against_what_it_can_save(scorer, fresh):
    costs = told(scorer, fresh, costs=Costs(2, bad=50, unit="USD"), noun="homes")["money"]
    flagged, paid = costs["flagged"], costs["costs"]
    assert paid["review"] == 2 * flagged["n"]
    assert paid["avoidable"] == 50 * flagged["bad"]
    assert_close(paid["break_even"], paid["review"] / paid["avoidable"])
    assert f"Reviewing {flagged['n']} flagged homes at $2 each" in costs["sentences"][-1]
    by_loss = told(scorer, fresh, costs=Costs(1000, loss=1))["money"]["costs"]
    assert_close(by_loss["avoidable"], flagged["total"])
    assert "cannot pay" in by_loss["sentences"][0]


@pytest.mark.parametrize("wrong", [{}, {"bad": 1, "loss": 1}, {"bad": -1}, {"loss": np.nan}])
def test_costs_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"bad|loss"):
        Costs(1, **wrong)


def test_parts_have_exact_counts_and_simultaneous_intervals(scorer, fresh):
    X, y = fresh
    summary = told(scorer, fresh)
    accepted = ~np.asarray(scorer(X)["flag"])
    bad = np.abs(y) > TAU
    kind, side, time = summary["parts"]
    assert [part["is_time"] for part in summary["parts"]] == [False, False, True]
    assert summary["groups"] == kind
    assert (summary["measure"]["kind"], summary["measure"]["promised"]) == ("conditional", 0.1)
    for part in kind["rows"]:
        inside = accepted & (X[:, 1] == int(part["group"]))
        assert (part["of"], part["k"]) == (inside.sum(), (inside & bad).sum())
        # A third of 5 % for each way of taking rows apart, and Sidak's share of it.
        delta = 1 - (1 - 0.05 / 3) ** (1 / len(kind["rows"]))
        exact = share_interval(part["k"], part["of"], delta)
        assert_close([part["low"], part["high"]], exact, rtol=1e-12)
    assert {part["group"] for part in side["rows"]} == {"high", "low"}
    months = (np.arange(1200) % 150 + np.datetime64("2026-01-15")).astype("datetime64[M]")
    assert time["name"] == "time, by month"
    assert [part["group"] for part in time["rows"]][:2] == ["January 2026", "February 2026"]
    assert [part["n"] for part in time["rows"]] == np.unique(months, return_counts=True)[1].tolist()
    assert sum(part["n"] for part in time["rows"]) == 1200
    assert time["trend"]["before"]["n"] + time["trend"]["after"]["n"] == accepted.sum()


def test_a_part_that_is_worse_and_a_rise_are_on_the_first_screen(scorer):
    X, y = rows(np.random.default_rng(2), 3000)
    late = np.arange(3000) >= 1500
    y = np.where((X[:, 1] == 2) | late, 3 * y, y)
    time = np.where(late, "2026-02-03", "2026-01-05T10:00")
    summary = report(scorer, X, y, groups=X[:, 1], time=time, noun="homes", created=DAY).summary
    standing = {part["group"]: part["standing"] for part in summary["parts"][0]["rows"]}
    assert standing["2.0"] == "worse"
    trend = summary["parts"][1]["trend"]
    assert trend["differs"]
    assert trend["since"] == "3 February 2026"
    said = " ".join(summary["verdict"]["attention"])
    assert "By group, worse than promised" in said
    assert "a rise beyond chance" in said
    assert (
        "does not hold" in summary["verdict"]["headline"]
        or "Neither" in summary["verdict"]["headline"]
    )


def test_batches_give_the_same_parts(scorer, fresh):
    X, y = fresh
    labels, day = X[:, 1].astype(int), days_of(len(y))
    whole = report(scorer, X, y, groups={"a": labels, "b": labels}, time=day, created=DAY).summary
    cuts = [
        Batch(X[i : i + 500], y[i : i + 500], groups=labels[i : i + 500],
              by={"b": labels[i : i + 500]}, time=day[i : i + 500])
        for i in range(0, 1200, 500)
    ]  # fmt: skip
    pilot = [Batch(X, y)]
    cut = report_batches(scorer, cuts, pilot=pilot, group_name="a", created=DAY).summary
    for one, other in zip(whole["parts"], cut["parts"], strict=True):
        assert [p["k"] for p in one["rows"]] == [p["k"] for p in other["rows"]]
    for one, other in zip(whole["parts"][2]["rows"], cut["parts"][2]["rows"], strict=True):
        assert_close(one["loss_accepted"], other["loss_accepted"], rtol=1e-12)
    with pytest.raises(ValueError, match="every batch"):
        report_batches(scorer, [cuts[0], Batch(X, y, groups=labels)], pilot=pilot)


@pytest.mark.extra
def test_days_are_read_from_what_people_have():
    import pandas as pd

    day = datetime.date(2026, 3, 31)
    for values in (
        ["2026-03-31", None],
        np.array(["2026-03-31", "NaT"], dtype="datetime64[ns]"),
        pd.Series(pd.to_datetime(["2026-03-31 23:59", None])),
        [datetime.datetime(2026, 3, 31, 12), None],
        ["20260331T000000", float("nan")],
    ):
        assert as_days(
            np.asarray(values, dtype=object) if isinstance(values, list) else values, 2
        ) == [day, None]
    for wrong in (["soon"], [3.5]):
        with pytest.raises((TypeError, ValueError), match="dates, such as 2026-03-31"):
            as_days(np.asarray(wrong, dtype=object), 1)
    lists = np.empty(1, dtype=object)
    lists[0] = ["2026-03-31"]
    with pytest.raises(TypeError, match="dates, such as 2026-03-31"):
        as_days(lists, 1)
    with pytest.raises(ValueError, match="one entry per row"):
        as_days(np.asarray(["2026-03-31"]), 2)


@pytest.mark.parametrize(
    ("n_days", "name"),
    [(10, "day"), (90, "week"), (400, "month"), (1400, "quarter"), (9000, "year")],
)
def test_periods_are_as_fine_as_a_page_can_show(n_days, name):
    days = [DAY + datetime.timedelta(days=i) for i in range(n_days)]
    found, labels = periods(days)
    assert found == name
    assert len(labels) == n_days


@pytest.mark.extra
def test_where_a_report_comes_from(scorer, fresh, tmp_path):
    archive, data, key = tmp_path / "guard.locus", tmp_path / "rows", b"k" * 32
    Scorer(scorer.locus, scorer.rule).save(archive, key=key)
    data.mkdir()
    (data / "part.csv").write_text("a\n1\n")
    for given, signature in ((key, "checked with its key"), (None, "present, not checked")):
        origin = Provenance.of_files(data, archive, key=given, approved="A. Reader")
        assert origin.signature == signature
    found = told(scorer, fresh, provenance=origin)["provenance"]
    assert found["archive_digest"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (found["data"], found["archive"], found["approved"]) == (
        "rows",
        "guard.locus",
        "A. Reader",
    )
    assert (found["first_day"], found["last_day"]) == ("2026-01-15", "2026-06-13")
    assert (found["valid_until"], found["is_expired"]) == ("2026-06-30", False)
    (data / "part.csv").write_text("a\n2\n")
    assert Provenance.of_files(data).data_digest != origin.data_digest
    late = told(scorer, fresh, created=datetime.date(2026, 7, 1))
    assert late["provenance"]["is_expired"]
    assert late["verdict"]["kind"] == "warn"
    assert "30 June 2026 and has expired" in late["verdict"]["notes"][0]


def claim(kind="conditional", promised=0.05, observed=0.0479, n=9335, standing="certificate"):
    tau = None if kind == "coverage" else 150_000.0
    return Claim(kind, "", standing, promised, observed, n, "Nothing was seen", tau=tau)


HOMES = Wording("homes", "dollars", "absolute")


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        (claim(), "kept", "Of 1,000 accepted homes about 48 were off by more than $150,000; at "
         "most 50 were promised."),
        (claim(observed=0.0501), "kept", "about 50.1 were off by more than $150,000; at most 50 "
         "were promised. The excess is within chance."),
        (claim(observed=0.08), "contradicted", "That is more than chance explains."),
        (claim(n=200, observed=0.04), "kept", "8 of 200 accepted homes (4.0 %) were off by more "
         "than $150,000; at most 5 % was promised."),
        (claim(promised=0.001, observed=0.0007), "kept", "Of 10,000 accepted homes about 7 were"),
        (claim(standing="heuristic"), "kept", "at most 50 were aimed at."),
        (claim("coverage", 0.1, 0.105, standing="theorem"), "kept", "Of 1,000 homes about 105 were "
         "off by more than their own bound; at most 100 were promised, on average."),
        (claim("joint", 0.1, 0.03), "too few rows to tell", "were accepted and off by more than "
         "$150,000; at most 100 were promised. These homes are too few"),
        (claim("mean loss", 70_000.0, 61_234.5), "kept", "9,335 accepted homes were off by $61,234 "
         "on average; at most $70,000 was promised."),
        (claim(observed=None), "not tested", "Nothing was seen."),
    ],
)  # fmt: skip
def test_a_claim_in_counts(given, verdict, words):
    assert words in claim_sentence(given, verdict, HOMES)


def test_headlines():
    kept, tuned = claim(), claim(standing="heuristic")
    assert (
        headline([(kept, "kept")] * 2, 1000, "homes")
        == "Both promises hold up on these 1,000 homes."
    )
    for found, words in (
        ([(kept, "kept")] * 3, "All 3 promises hold up"),
        ([(kept, "kept"), (kept, "contradicted")], "1 of 2 promises does not hold"),
        ([(kept, "contradicted")] * 2, "Neither promise holds"),
        ([(tuned, "contradicted"), (kept, "kept")], "misses its aim"),
        ([(kept, "too few rows to tell")], "too few to test the promise"),
        ([(kept, "not tested")], "No promise could be tested"),
        ([(kept, "not tested"), (kept, "kept")], "1 of 2 has no exact test"),
    ):
        assert words in headline(found, 1000, "homes")


def test_other_losses_have_other_words():
    assert Wording("rows", "", "zero_one").exceeded(0.5) == "were wrong"
    assert Wording("rows", "kWh", "squared").exceeded(2.5) == "had a loss above 2.5 kWh"


def test_a_wanted_tolerance_is_counted_at_exactly(scorer, locus, fresh):
    for one in (scorer, Scorer(locus)):
        found = told(one, fresh, tau=0.777)["explorer"]
        assert 0.777 in found["taus"]
    assert found["taus"][found["start"]["tau_index"]] == 0.777


@pytest.mark.extra
def test_codes_are_no_numbers(fresh):
    import pandas as pd

    X, y = fresh
    frame = pd.DataFrame({"size": X[:, 0], "zip_code": 98_000 + X[:, 1].astype(int)})
    locus = Locus(lambda X: np.zeros(len(X)), engine=Scale(), random_state=0)
    locus.fit(frame[:700], y[:700])
    found = report(Scorer(locus), frame[700:], y[700:], groups="zip_code").summary
    kinds = {part["name"]: part["kind"] for part in found["rows"]["columns"]}
    assert (kinds["zip_code"], kinds["size"]) == ("code", "number")
    reasons = [r for row in found["rows"]["riskiest"] for r in row["reasons"]]
    assert {r["value"] for r in reasons if r["name"] == "zip_code"} <= {"98000", "98001", "98002"}
    assert {part["group"] for part in found["groups"]["rows"]} == {"98000", "98001", "98002"}
