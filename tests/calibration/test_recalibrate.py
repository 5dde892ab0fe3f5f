"""Recalibrate: the same loss model on other rows, and what becomes of rules."""

import json
import math

import numpy as np
import pytest

from archives_for_tests import (
    assert_same_scores,
    forge,
    forged,
    members_of,
    rows,
    small_scorer,
)
from calibrations_for_tests import LevelPerRow
from engines_for_tests import quick
from helpers import assert_close, raises, warns
from locuscore import (
    ArchiveError,
    FlagRule,
    Locus,
    LocusWarning,
    Score,
    Scorer,
    certify_threshold,
    prediction_column,
    tau_rule,
)
from locuscore._laws.calibration import MarginalCalibration
from locuscore.calibration import CrossFit
from locuscore.calibration._fading import FadingCalibration
from locuscore.engines import Scale
from locuscore.report import report

ALPHAS = (0.1, 0.3)


@pytest.fixture(scope="module")
def locus():
    X, y = rows(400)
    return quick().fit(X, y)


NEW = rows(300, seed=1)
RECENT = (NEW[0], 3.0 * NEW[1])


def test_the_new_rows_calibrate_the_same_model(locus):
    X, y = RECENT
    before = locus.loss_bound(X, ALPHAS)
    new = locus.recalibrate(X, y)
    tails = locus.loss_dist(X).tail(locus.losses(X, y))
    by_hand = MarginalCalibration(np.sort(tails))
    assert_close(new.tails_, by_hand.tails)
    assert_close(new.loss_bound(X, ALPHAS), locus.loss_dist(X).isf(by_hand.level(ALPHAS)[None]))
    # Contract 11, on the new rows.
    for alpha, bound in zip(ALPHAS, new.loss_bound(X, ALPHAS).T, strict=True):
        assert np.sum(new.losses(X, y) <= bound) >= np.ceil((1 - alpha) * 301)
    assert new.engine_ is locus.engine_
    assert_close(new.calibration_losses_, locus.losses(X, y))
    assert_close(new.calibration_signals_, locus.row_signals(X))
    assert_close(new.calibration_rows_, np.arange(300))
    assert_close(locus.loss_bound(X, ALPHAS), before)
    assert new.loss_bound(X[:1]) > locus.loss_bound(X[:1])


def test_logged_losses_give_the_same(locus):
    X, y = RECENT
    one, other = locus.recalibrate(X, y), locus.recalibrate_losses(X, locus.losses(X, y))
    assert_close(one.tails_, other.tails_)


def test_rows_of_d2_may_calibrate_again_and_those_of_d1_may_not(locus):
    X, y = rows(400)
    again = locus.recalibrate(X[locus.calibration_rows_], y[locus.calibration_rows_])
    assert_close(again.tails_, locus.tails_)
    assert again.calibration_digest_ == locus.calibration_digest_
    n = len(locus.fit_rows_)
    with raises(ValueError, f"{n} of them are rows of D1", "p < 1e-06", "those of D2"):
        locus.recalibrate(X, y)
    with warns(LocusWarning, f"inputs of {n} rows"):
        locus.recalibrate(X, y + 1.0)


def test_logged_losses_of_d1_are_refused_as_its_labels_are(locus):
    X, y = rows(400)
    z, n = locus.losses(X, y), len(locus.fit_rows_)
    d2 = locus.calibration_rows_
    assert_close(locus.recalibrate_losses(X[d2], z[d2]).tails_, locus.tails_)
    with raises(ValueError, f"{n} of them are rows of D1", "p < 1e-06", "those of D2"):
        locus.recalibrate_losses(X, z * (1 + 1e-14))  # a log rounds
    with warns(LocusWarning, f"inputs of {n} rows"):
        locus.recalibrate_losses(X, z + 1.0)


@pytest.mark.extra
@pytest.mark.parametrize("is_loaded", [False, True])
def test_rows_that_calibrated_by_their_losses_certify_nothing(tmp_path, is_loaded):
    X, y = RECENT
    locus = quick(engine=Scale()).fit(*rows(400))
    other = locus.recalibrate_losses(X, locus.losses(X, y))
    if is_loaded:
        with warns(LocusWarning, "predictor"):  # a function, which no archive holds
            Scorer(other).save(tmp_path / "guard.locus")
        other = Scorer.load(tmp_path / "guard.locus", predictor=locus.predictor).locus
    score = Score.bound(0.1)
    with raises(ValueError, "300 of 300", "used to fit"):
        other.certify(1.0, 0.3, 0.1, X, y, of=score)
    with raises(ValueError, "300 of 300", "used to fit"):
        other.certify_groups(X[:, 0] > 0.5, 1.0, 0.3, 0.1, X, y, of=score)
    assert report(Scorer(other), X, y).is_broken
    with raises(ValueError, "rows of D1"):
        other.recalibrate(*rows(400))
    # Rows of the old D2 had no part in this calibration or its loss model.
    X, y = rows(400)
    old = X[locus.calibration_rows_], y[locus.calibration_rows_]
    assert other.certify(1.0, 0.3, 0.1, *old, of=score).certificate is not None
    # By their true values again.
    again = other.recalibrate(*RECENT)
    with raises(ValueError, "300 of 300"):
        again.certify(1.0, 0.3, 0.1, *RECENT)


def test_losses_of_rows_that_fit_has_seen_judge_nothing(locus):
    X, y = rows(400)
    found = report(Scorer(locus), X, losses=locus.losses(X, y))
    assert found.is_broken
    assert "400 of 400" in found.summary["verdict"]["sentence"]


def test_costs_are_not_checked_on_rows_of_fit(locus):
    X, y = rows(400)
    with raises(ValueError, "400 of 400", "used to fit", "allow_rows_used_in_fit"):
        locus.route_by_cost(X, 1.0, 1.0, 5.0, X_val=X, y_val=y)
    with warns(LocusWarning, "400 of 400"):
        locus.route_by_cost(X, 1.0, 1.0, 5.0, X_val=X, y_val=y, allow_rows_used_in_fit=True)
    assert locus.route_by_cost(X, 1.0, 1.0, 5.0, X_val=NEW[0], y_val=NEW[1]).exceedance is not None


def test_the_new_rows_are_now_those_that_certify(locus):
    X, y = RECENT
    new = locus.recalibrate(X, y)
    rule = new.certify(1.0, 0.5, 0.1)
    tails, z = new.loss_dist(X).sf(1.0), new.losses(X, y)
    reference = new.loss_model_.survival(new.reference_signals_, 1.0)
    by_hand = certify_threshold(tails, z, 1.0, 0.5, 0.1, of=Score.tail(1.0), reference=reference)
    assert rule.threshold == by_hand.threshold
    with raises(ValueError, "300 of 300", "used to fit"):
        new.certify(1.0, 0.5, 0.1, X, y)
    old = rows(400)[0][locus.calibration_rows_], rows(400)[1][locus.calibration_rows_]
    assert new.certify(1.0, 0.5, 0.1, *old).evidence["rows_also_in_fit"] == 0


def test_rules_on_the_old_bound_are_void(locus):
    X, y = RECENT
    new = locus.recalibrate(X, y)
    fresh = rows(200, seed=2)
    void = [
        locus.tau_rule(2.0, 0.1),
        locus.certify(1.0, 0.5, 0.2, *fresh, of=Score.bound(0.1)),
        locus.certify(1.0, 0.5, 0.2, *fresh, of=Score.exceedance(1.0)),
    ]
    for rule in void:
        kept = FlagRule.from_dict(json.loads(json.dumps(rule.to_dict())))
        assert locus.accepts(X, kept).shape == (300,)
        for use in (lambda r: new.accepts(X, r), lambda r: Scorer(new, r)):
            with raises(ValueError, "another calibration", "void", locus.calibration_digest_):
                use(kept)
    with raises(ValueError, "tau_rule(2, 0.1)"):
        new.accepts(X, void[0])
    with raises(ValueError, "certify"):
        new.accepts(X, void[1])
    # Functions of D1, rules from arrays, and rules made with the new one.
    for rule in (locus.certify(1.0, 0.5, 0.2), tau_rule(1.0, 0.1), new.tau_rule(1.0, 0.1)):
        assert Scorer(new, rule)(X)["flag"].shape == (300,)


def test_a_scorer_before_digests_still_takes_its_rule(locus):
    rule = locus.tau_rule(1.0, 0.1).to_dict()
    del rule["evidence"]["calibration"]
    old = FlagRule.from_dict(rule)
    assert type(old.certificate).__name__ == "JointClaim"
    Scorer(locus.recalibrate(*RECENT), old)


def test_fading(locus):
    X, y = RECENT
    new = locus.recalibrate(X, y, half_life=50, drift_per_row=1e-4)
    tails = locus.loss_dist(X).tail(locus.losses(X, y))
    weights = 2.0 ** (-np.arange(300, 0, -1) / 50)
    for tau in (0.5, 1.0, 3.0):
        survival = locus.loss_dist(X).sf(tau)
        expected = [(1 + weights[tails <= s].sum()) / (1 + weights.sum()) for s in survival]
        assert_close(new.exceedance(X, tau), expected, rtol=1e-9)
        fits = new.loss_bound(X, 0.1) <= tau
        assert (fits == (new.exceedance(X, tau) <= 0.1)).all()
    apart = np.minimum(1.0, 1e-4 * np.arange(300, 0, -1))
    gap = np.sum(weights * (1 - (1 - apart) ** 2)) / (1 + weights.sum())
    assert_close(new.calibration_.gap(), gap, rtol=1e-9)
    assert new.calibration_.gap(ahead=100) > gap
    card = Scorer(new, alphas=ALPHAS).card
    assert "half-life of 50 rows" in card
    assert f"{gap:.4g}" in card
    rule = new.tau_rule(1.0, 0.1)
    assert "alpha + gap" in rule.guarantee
    assert f"{gap:.4g}" in rule.guarantee
    assert "coverage_beta" not in rule.evidence
    # The same rows with other weights are another calibration.
    assert new.calibration_digest_ != locus.recalibrate(X, y, half_life=60).calibration_digest_
    # The kind is kept, and its gap is a formula without a drift.
    later = locus.recalibrate(X, y, half_life=50).recalibrate(X[:200], y[:200])
    assert isinstance(later.calibration_, FadingCalibration)
    assert later.calibration_.gap() is None
    assert "d_TV" in later.calibration_.sentence([0.1])
    assert "as declared" not in later.calibration_.sentence([0.1])


def test_equal_weights_are_a_window(locus):
    X, y = RECENT
    one, other = locus.recalibrate(X, y, half_life=math.inf), locus.recalibrate(X, y)
    assert_close(one.loss_bound(X, ALPHAS), other.loss_bound(X, ALPHAS))


def test_fading_too_fast_is_refused_with_what_would_do(locus):
    X, y = RECENT
    with raises(ValueError, "too fast", "alpha = 0.1", "half-life of 7 rows would do"):
        locus.recalibrate(X, y, half_life=6)
    assert locus.recalibrate(X, y, half_life=7).calibration_.too_few(0.1) is None
    slow = locus.recalibrate(X, y, half_life=6, alpha=0.2)
    with warns(LocusWarning, "half-life of 7 rows would do"):
        assert np.isposinf(slow.loss_bound(X, 0.1)).all()
    with raises(ValueError, "At least 9 rows"):
        locus.recalibrate(X[:8], y[:8], half_life=100)
    with raises(ValueError, "half-life of inf rows"):
        locus.recalibrate(X[:9], y[:9], half_life=100)
    top = locus.recalibrate(X, y, half_life=6, alpha=0.2).calibration_.too_few(0.1, 5.0)
    assert "top of the support, 5" in top


def test_few_rows_warn_as_ever(locus):
    X, y = RECENT
    with warns(LocusWarning, "5 calibration rows are too few", "At least 9"):
        assert np.isposinf(locus.recalibrate(X[:5], y[:5]).loss_bound(X[:2])).all()


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"half_life": 0}, ["half_life", "0"]),
        ({"half_life": -3.0}, ["half_life", "-3.0"]),
        ({"half_life": float("nan")}, ["half_life", "nan"]),
        ({"half_life": [1.0, 2.0]}, ["half_life"]),
        ({"half_life": 50, "drift_per_row": -0.1}, ["drift_per_row", "-0.1"]),
        ({"half_life": 50, "drift_per_row": 1.5}, ["drift_per_row", "1.5"]),
        ({"drift_per_row": 0.1}, ["half_life"]),
        ({"half_life": 50, "alpha": 1.0}, ["alpha", "1.0"]),
        ({"half_life": 50, "clusters": np.zeros(300)}, ["without clusters"]),
        ({"clusters": np.zeros(300)}, ["without clusters", "fit(X, y, clusters=...)"]),
        ({"groups": np.zeros(300)}, ["groups="]),
    ],
)
def test_bad_settings(locus, settings, facts):
    with raises(ValueError, *facts):
        locus.recalibrate(*RECENT, **settings)


def test_bad_rows(locus):
    X, y = RECENT
    with raises(ValueError, "needs labelled rows"):
        locus.recalibrate(X[:0], y[:0])
    with raises(ValueError, "NaN"):
        locus.recalibrate(X, np.where(np.arange(300) == 7, np.nan, y))
    with raises(ValueError, "300", "299"):
        locus.recalibrate(X, y[:-1])
    with raises(ValueError, "features"):
        locus.recalibrate(X[:, :2], y)
    with raises(ValueError, "non-finite"):
        locus.recalibrate_losses(X, np.full(300, np.inf))
    with raises(ValueError, "support", "-1"):
        locus.recalibrate_losses(X, np.full(300, -1.0))
    with raises(ValueError, "not fitted"):
        quick().recalibrate(X, y)


def test_other_kinds_stay_what_they_are_and_do_not_fade(locus):
    X, y = RECENT
    own = locus.recalibrate(X, y)
    own.calibration_ = LevelPerRow(own.tails_, 2)
    assert isinstance(own.recalibrate(X, y).calibration_, LevelPerRow)
    with raises(ValueError, "half_life", "LevelPerRow"):
        own.recalibrate(X, y, half_life=50)


@pytest.mark.extra
def test_frames_and_archives(path):
    import pandas as pd

    names = ["a", "b", "c"]
    X, y = rows(300)
    frame, recent = pd.DataFrame(X, columns=names), pd.DataFrame(RECENT[0], columns=names)
    scorer = small_scorer(X=frame, y=pd.Series(y, name="price"))
    scorer.save(path)
    loaded = Scorer.load(path).locus  # has no rows, but can be given others
    for known in (scorer.locus, loaded):
        new = known.recalibrate(recent, pd.Series(RECENT[1]), half_life=80, drift_per_row=1e-5)
        kept = Scorer(new, new.tau_rule(1.0, 0.1), alphas=ALPHAS)
        kept.save(path)
        back = Scorer.load(path)
        assert_same_scores(kept, back, recent)
        assert back.card == kept.card
        assert back.locus.calibration_.gap() == new.calibration_.gap()
        assert back.locus.calibration_digest_ == new.calibration_digest_
        with raises(ValueError, "fade", "half_life"):
            new.certify(1.0, 0.5, 0.2)
        with raises(ValueError, "fade", "half_life"):
            new.certify_groups("a", 1.0, 0.5, 0.2)
        alike = known.recalibrate(recent, pd.Series(RECENT[1]))
        assert len(alike.certify(1.0, 0.5, 0.2).table["threshold"])
        assert alike.certify_groups(lambda X: ["all"] * len(X), 1.0, 0.5, 0.2)["all"].table
        with raises(ValueError, "rows of D1"):
            back.locus.recalibrate(frame, y)
    moved = pd.Series(RECENT[1]).sample(frac=1.0, random_state=0)
    with raises(ValueError, "another order"):
        scorer.locus.recalibrate(recent, moved)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("half_life", -1.0),
        ("half_life", "soon"),
        ("half_life", None),
        ("drift", 2.0),
        ("drift", "x"),
        ("ages", None),
    ],
)
def test_forged_fading_is_refused(path, part, value):
    scorer = small_scorer()
    new = scorer.locus.recalibrate(*RECENT, half_life=80)
    Scorer(new).save(path)

    def change(locus, _):
        parts = locus["calibration_"]["state"]
        parts[part] = parts["tails"] if part == "ages" else value
        if part == "ages":
            parts["tails"] = {"is": "tuple", "items": [0.1, 0.2]}

    with pytest.raises(ArchiveError):
        Scorer.load(forged(path, path, change))


@pytest.mark.extra
def test_a_loaded_locus_certifies_groups_and_fades_after_folds(tmp_path):
    X, y = rows(200)
    X[:, 2] = X[:, 2] > 0.5
    settings = {"engine": Scale(), "signals": ["x", "predictor"], "random_state": 0}
    first = Locus(prediction_column(0), calibration=CrossFit(2), **settings).fit(X[:90], y[:90])
    Scorer(first).save(tmp_path / "x.locus")
    loaded = Scorer.load(tmp_path / "x.locus").locus.recalibrate(X[90:], y[90:])
    rule = loaded.certify_groups(2, 0.5, 0.4, 0.2)
    assert set(rule) == {0.0, 1.0}
    scorer = Scorer(loaded.recalibrate(X[90:], y[90:], half_life=50), alphas=ALPHAS)
    scorer.save(tmp_path / "x.locus")
    assert_same_scores(scorer, Scorer.load(tmp_path / "x.locus"), X)


@pytest.mark.extra
def test_a_rule_of_an_earlier_version_belongs_to_the_calibration_it_was_kept_with(tmp_path):
    X, y = rows(200)
    settings = {"engine": Scale(), "signals": ["x", "predictor"], "random_state": 0}
    locus, path = Locus(prediction_column(0), **settings).fit(X, y), tmp_path / "x.locus"
    Scorer(locus, locus.tau_rule(0.5, 0.2)).save(path)
    state = json.loads(members_of(path)["scorer.json"])
    del state["rule"]["evidence"]["calibration"]
    forge(path, {"scorer.json": json.dumps(state).encode()})
    loaded = Scorer.load(path)
    assert loaded.rule == locus.tau_rule(0.5, 0.2)
    with raises(ValueError, "another calibration"):
        Scorer(loaded.locus.recalibrate(*RECENT), loaded.rule)
