"""Small edges of all calibrations: names of columns, what is refused, texts, parameters."""

import numpy as np
import pytest
from sklearn.base import clone

from calibrations_for_tests import CALIBRATIONS, calibrated
from engines_for_tests import quick
from helpers import assert_close, raises, warns
from locuscore import Locus, LocusWarning, Scorer
from locuscore.calibration import ByGroup, ClusterRows, CrossFit, Marginal, OutOfBag, Shifted
from locuscore.engines import Forest
from locuscore.report import report
from service_for_tests import frame

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.extra


def clustered(n_clusters, size=4, first=0, seed=0):
    rng = np.random.default_rng(seed)
    n = n_clusters * size
    day = first + np.repeat(np.arange(n_clusters), size)
    X = pd.DataFrame({"a": rng.uniform(size=n), "day": day})
    return X, rng.normal(size=n)


def zeros(X):
    return np.zeros(len(X))


@pytest.fixture(scope="module")
def by_day():
    X, y = clustered(100)
    return quick(zeros).fit(X, y, clusters="day")


def test_clusters_by_the_name_of_their_column(by_day):
    X, y = clustered(100)
    same = quick(zeros).fit(X, y, clusters=X["day"].to_numpy())
    assert_close(by_day.tails_, same.tails_)
    assert_close(by_day.calibration_.clusters, same.calibration_.clusters)
    X, y = clustered(60, first=1000, seed=1)
    one, other = (by_day.recalibrate(X, y, clusters=c) for c in ("day", X["day"]))
    assert_close(one.calibration_.clusters, other.calibration_.clusters)
    one, other = (by_day.certify(1.0, 0.5, 0.2, X, y, clusters=c) for c in ("day", X["day"]))
    assert one.to_dict() == other.to_dict()
    with raises(ValueError, "no column 'month'", "day"):
        by_day.certify(1.0, 0.5, 0.2, X, y, clusters="month")
    with raises(ValueError, "no column 'month'", "day"):
        by_day.recalibrate(X, y, clusters="month")
    with raises(ValueError, "no column 'month'", "day"):
        quick(zeros).fit(X, y, clusters="month")
    with raises(TypeError, "'day' is a name", "array"):
        quick(zeros).fit(X.to_numpy(), y, clusters="day")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("groups", "calibration=ByGroup("), ("weights", "=Shifted("), ("color", "clusters")],
)
def test_what_fit_does_not_take(name, remedy):
    X, y = clustered(10)
    for fit in (quick(zeros).fit, quick(None).fit_losses):
        with raises(TypeError, name, remedy):
            fit(X, np.abs(y), **{name: X["day"]})


def test_a_class_is_no_choice():
    X, y = clustered(10)
    with raises(TypeError, "ByGroup(...)", "class"):
        quick(zeros, calibration=ByGroup).fit(X, y)


MANY = np.arange(400) % 3


@pytest.mark.parametrize(
    "choice",
    [ByGroup(MANY), ByGroup(pd.Series(MANY)), Shifted(1.0 + MANY), ByGroup(["a", "b"], 30)],
    ids=str,
)
def test_choices_are_shown_in_one_line(choice):
    assert "\n" not in repr(choice)
    assert len(repr(choice)) < 100
    assert type(choice).__name__ in repr(choice)
    assert len(repr(Locus(zeros, calibration=choice)).splitlines()) <= 3
    assert repr(CrossFit(5)) == "CrossFit(k=5)"
    assert repr(ByGroup("town", pool_below=3)) == "ByGroup(by='town', pool_below=3)"


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_what_was_learned_is_shown_in_one_line(name):
    X, y = frame(300)
    calibration = calibrated(name, X, y, lambda X: np.zeros(len(X))).calibration_
    assert len(repr(calibration).splitlines()) == 1
    assert repr(calibration).startswith(f"{type(calibration).__name__}(n={calibration.n}")


def test_parameters_of_a_choice():
    choice = ByGroup("town")
    locus = Locus(zeros, calibration=choice)
    assert locus.get_params()["calibration__pool_below"] is None
    assert locus.set_params(calibration__pool_below=20, random_state=3) is locus
    assert (locus.calibration.by, locus.calibration.pool_below) == ("town", 20)
    assert locus.random_state == 3
    assert choice.pool_below is None  # another Locus may have it
    assert clone(locus).calibration.pool_below == 20
    locus.set_params(calibration=CrossFit(3), calibration__k=4)
    assert locus.calibration == CrossFit(4)
    with raises(ValueError, "CrossFit", "'pool_below'", "k"):
        locus.set_params(calibration__pool_below=3)
    with raises(ValueError, "no parameters", "calibration="):
        Locus(zeros).set_params(calibration__k=3)
    for one in (Marginal(), OutOfBag(), ClusterRows(3), Shifted(), CrossFit()):
        assert type(one)(**one.get_params()).get_params() == one.get_params()


def test_clusters_above_the_declared_largest_are_noticed():
    X, y = clustered(100)
    locus = quick(zeros, calibration=ClusterRows(5)).fit(X, y, clusters="day")
    large, y = clustered(60, size=7, first=1000, seed=1)
    for verdict in (
        report(Scorer(locus), large, y, clusters="day").summary["verdict"],
        report(Scorer(locus), large, 10 * y, clusters="day").summary["verdict"],
    ):
        assert verdict["kind"] in ("warn", "bad")
        for fact in ("60 of 60 clusters", "largest, 5", "up to 7"):
            assert fact in verdict["claims"][-1]["sentence"]
    with warns(LocusWarning, "60 of 60 clusters", "largest, 5", "up to 7"):
        locus.certify(1.0, 0.5, 0.2, large, y, clusters="day")
    small, y = clustered(60, size=4, first=1000, seed=1)
    assert "largest, 5" not in str(report(Scorer(locus), small, y, clusters="day"))


def test_a_stream_says_when_its_promise_begins():
    X, y = clustered(100)
    stream = quick(zeros).fit(X, y).adapt(0.1, step=0.01)
    for part in range(20):
        rows = slice(10 * part, 10 * part + 10)
        stream.update(stream.bound(X[rows]).ticket, X[rows], y[rows])
        (promise,) = stream.promise()
        # 0.1 / 0.01 and 0.9 for each of the 10 rows of a batch, over 0.9: 21.1 labels.
        assert (
            ("No promise yet" in promise.sentence) == (promise.labels < 22) == (promise.most >= 1)
        )
        assert ("22 labels" in promise.sentence) == (promise.labels < 22)


def test_rows_above_their_own_bounds_weigh_at_most_alpha():
    """Contract 11 for weights: sum of w over rows of D2 above <= alpha W - (1 - alpha) min w."""
    X, y = frame(300)
    w = 0.1 + np.asarray(X["size"]) ** 3
    locus = quick(zeros, calibration=Shifted(w)).fit(X, y)
    d2 = locus.calibration_rows_
    z, own = locus.losses(X.iloc[d2], y.iloc[d2]), w[d2]
    for alpha in (0.1, 0.25, 0.5):
        above = np.asarray(z > locus.loss_bound(X.iloc[d2], alpha, weights=own))
        assert above.any()
        limit = alpha * own.sum() - (1 - alpha) * own[above].min()
        assert own[above].sum() <= limit * (1 + 1e-12)


def test_rows_that_fade_weigh_at_most_alpha_above():
    """Contract 11 for a half-life: sum of w over rows above <= alpha (1 + W) - 1."""
    X, y = frame(300)
    recent, y_recent = frame(200, seed=1)
    locus = quick(zeros).fit(X, y).recalibrate(recent, y_recent, half_life=40)
    w = 2.0 ** (-np.arange(200, 0, -1) / 40)
    for alpha in (0.1, 0.25, 0.5):
        above = np.asarray(locus.losses(recent, y_recent) > locus.loss_bound(recent, alpha))
        assert above.any()
        assert w[above].sum() <= alpha * (1 + w.sum()) - 1 + 1e-9


def test_a_heuristic_is_called_one():
    X, y = clustered(100)
    locus = quick(zeros, engine=Forest(n_trees=20), calibration=OutOfBag()).fit(X, y)
    scorer = Scorer(locus, locus.tau_rule(1.0, 0.1))
    assert "Heuristic, nothing is promised" in " ".join(scorer.card.split())
    assert "promise holds" not in " ".join(scorer.card.split())
    assert scorer.rule.standing == "heuristic"
