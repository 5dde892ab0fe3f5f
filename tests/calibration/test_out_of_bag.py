"""OutOfBag: a row's own loss has no part in its tail, which is that of the slow transcription."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from archives_for_tests import assert_same_scores, rows
from helpers import assert_close, raises, warns
from locuscore import KNNGamma, Locus, LocusWarning, Scorer
from locuscore._laws.signed_errors import ErrorLoss, SignedErrors
from locuscore.calibration import OutOfBag
from locuscore.engines import Forest, Gaussian
from locuscore.engines._out_of_bag import out_of_bag_laws
from locuscore.report import report

PRIOR, LEAST = 20, 1e-3  # of the expected size of a loss


def points_of(values, n_points):
    """Middles of equal parts of the sorted values."""
    values = sorted(values)
    return [values[int((k + 0.5) / n_points * len(values))] for k in range(n_points)]


class Slow:
    """The law of one row of a forest without it: tree by tree, leaf by leaf."""

    def __init__(self, forest, S, z, errors=None):
        self.forest, self.S, self.errors = forest, S, errors
        self.unit = np.ones(len(z)) if forest.unit_ is None else forest.unit_(S)
        self.z, self.n = z / self.unit, len(z)
        self.leaves = [tree.apply(S.astype(np.float32)) for tree in forest.forest_.estimators_]
        self.seen = [set(map(int, rows)) for rows in forest.forest_.estimators_samples_]

    def others(self, i, t):
        same = np.flatnonzero(self.leaves[t] == self.leaves[t][i])
        return [int(j) for j in same if j != i]

    def trees(self, i):
        """Trees grown without a row, in which its leaf has others."""
        every = range(self.forest.n_trees)
        return [t for t in every if i not in self.seen[t] and self.others(i, t)]

    def size(self, i):
        """Mean over its trees of the mean loss of the others in the leaf."""
        mean = [np.mean(self.z[self.others(i, t)]) for t in self.trees(i)]
        return np.array(mean)

    def mixed(self, mean):
        typical = self.z.mean()
        return np.maximum((self.n * mean + PRIOR * typical) / (self.n + PRIOR), LEAST * typical)

    def shape_points(self, i):
        """Ratios of all other rows, shared out among all trees; those of its own trees count."""
        per_tree, n_trees = self.forest.shape_.per_tree, self.forest.n_trees
        every = [self.z[j] / self.mixed(np.mean(self.size(j))) for j in range(self.n) if j != i]
        ratios = np.array(points_of(every, per_tree * n_trees)).reshape(per_tree, n_trees)
        return np.mean(self.mixed(self.size(i))) * ratios[:, self.trees(i)].ravel()

    def points(self, i):
        found, n_points = [], self.forest.table_.shape[1]
        for t in self.trees(i):
            others = self.others(i, t)
            found += points_of(self.z[others], n_points)
            if self.errors is not None:
                unexpected = self.errors.unexpected(self.S)[others]
                expected = self.S[i, self.errors.column]
                found += [self.errors.loss(expected + u) for u in points_of(unexpected, n_points)]
        if self.forest.shape_ is not None:
            found += list(self.shape_points(i))
        return np.array(found)

    def tail(self, i):
        points = self.points(i)
        top, scale = points.max(), max(points.mean() - points.min(), self.forest.smallest_)
        z = np.nextafter(self.z[i] * self.unit[i], -np.inf)
        points, top, scale = (part * self.unit[i] for part in (points, top, scale))
        if z >= top:
            return 0.01 * (1 + (z - top) / scale) ** -3
        return 0.01 + 0.99 * np.mean(points > z)


def tails(forest, S, z, errors=None):
    """Tails by position; a row without a law has none."""
    found = np.full(len(z), np.nan)
    for at, draws in out_of_bag_laws(forest, S, z, errors):
        found[at] = draws.sf(np.nextafter(z[at], -np.inf)[:, None])[:, 0]
    return found


def sample(rng, n):
    S = rng.uniform(size=(n, 3))
    return S, S[:, 1] * rng.exponential(size=n)


@pytest.mark.parametrize("kind", ["lengths", "ties", "spread", "errors"])
def test_it_is_the_slow_transcription(kind, rng):
    S, z = sample(rng, 40)
    errors = spread = None
    if kind == "ties":
        z = np.round(z)
    if kind == "spread":
        spread = 1
    if kind == "errors":
        y = z * rng.choice([-1, 1], size=40)
        z, errors = np.abs(y), SignedErrors(ErrorLoss(), y, 2)
    forest = Forest(n_trees=9, min_samples_leaf=2, random_state=0).fit(S, z, errors, spread)
    assert (forest.unit_ is not None) == (kind == "spread")
    assert (forest.shape_ is None) == (kind == "ties")
    slow = Slow(forest, S, z, errors)
    expected = [slow.tail(i) if slow.trees(i) else np.nan for i in range(40)]
    assert_close(tails(forest, S, z, errors), expected, rtol=1e-12)


def test_a_rows_own_loss_has_no_part_in_its_law(rng):
    """Another loss in its leaves changes nothing; left in, it would be found there."""
    S, z = sample(rng, 200)
    forest = Forest(n_trees=20, max_samples=100, random_state=0).fit(S, z)

    def law_of(row, z):
        laws = out_of_bag_laws(forest, S, z, None)
        return next(draws.points[at == row][0] for at, draws in laws if row in at)

    other = np.where(np.arange(200) == 7, 1e6, z)
    # The shape of all rows knows the mean loss, which one row moves a little.
    per_tree = forest.shape_.per_tree
    points = [law_of(7, losses)[0].reshape(-1, 8)[:, :-per_tree] for losses in (z, other)]
    assert_close(points[0], points[1])
    own = forest.predict_draws(S[[7]]).points
    assert z[7] in own
    assert z[7] not in points[0]


def test_calibration_is_marginal_with_these_tails(rng):
    X, z = sample(rng, 80)
    forest = Forest(n_trees=4, max_samples=80)
    locus = Locus(engine=forest, signals="x", calibration=OutOfBag(), random_state=0)
    locus.fit_losses(X, z)
    found = tails(locus.engine_, X, z)
    known = np.flatnonzero(~np.isnan(found))
    assert len(known) < 80  # some rows are in all four trees
    assert_close(locus.calibration_rows_, known)
    assert_close(locus.tails_, np.sort(found[known]), rtol=1e-12)
    level = np.sort(locus.tails_)[::-1][int(np.ceil(0.8 * (len(known) + 1))) - 1]
    assert_close(locus.loss_bound(X, 0.2), locus.loss_dist(X).isf(level))
    assert_close(locus.exceedance(X, 0.5) <= 0.2, locus.loss_bound(X, 0.2) <= 0.5)


@pytest.mark.extra
def test_its_words(path):
    X, y = rows(120)
    g = RandomForestRegressor(10, random_state=0).fit(X, y)
    locus = Locus(g, calibration=OutOfBag(), engine=Forest(n_trees=20), random_state=0).fit(X, y)
    scorer = Scorer(locus, locus.tau_rule(1.0, 0.2), alphas=(0.2,))
    assert scorer.rule.standing == "heuristic"
    assert "no theorem" in str(scorer.rule).replace("\n", " ")
    assert "Heuristic" in Scorer(locus).card
    assert locus.calibration_.coverage_law(0.2, 100) is None
    with warns(LocusWarning, "too few", 0.001):
        locus.loss_bound(X, 0.001)
    scorer.save(path)
    fresh, y_fresh = rows(60, seed=1)
    assert_same_scores(scorer, Scorer.load(path), fresh)
    summary = report(scorer, fresh, y_fresh).summary
    assert "no share is promised" in summary["coverage"][0]["sentence"]
    assert {claim["standing"] for claim in summary["verdict"]["claims"]} == {"heuristic"}
    with raises(ValueError, "all rows of fit", "X and y"):
        locus.certify(1.0, 0.2, 0.1)


def test_classes(rng):
    X = rng.uniform(size=(150, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=150) > 0.5).astype(int)
    g = RandomForestClassifier(10, random_state=0).fit(X[:50], y[:50])
    settings = {"loss": "zero_one", "calibration": OutOfBag(), "random_state": 0}
    locus = Locus(g, engine=Forest(n_trees=20), **settings).fit(X[50:], y[50:])
    assert set(locus.loss_bound(X, 0.2)) <= {0.0, 1.0}


def test_bad_input():
    X, y = rows(60)
    g = LinearRegression().fit(X, y)
    with raises(ValueError, "Forest", "Gaussian", "CrossFit"):
        Locus(g, engine=Gaussian(), calibration=OutOfBag()).fit(X, y)
    with raises(ValueError, "Forest", "Auto"):
        Locus(g, engine="auto", calibration=OutOfBag()).fit(X, y)
    with raises(ValueError, "gamma", "CrossFit"):
        Locus(g, gamma=KNNGamma(), calibration=OutOfBag()).fit(X, y)
    with raises(ValueError, "OutOfBag", "clusters"):
        Locus(g, calibration=OutOfBag()).fit(X, y, clusters=np.arange(60))
    with raises(ValueError, "OutOfBag", "target"):
        Locus(g, calibration=OutOfBag()).fit(X, y, target=X)
    with raises(ValueError, "OutOfBag", "calibration_size"):
        Locus(g, calibration=OutOfBag(), calibration_size=20).fit(X, y)
    few = Forest(n_trees=1, max_samples=60, random_state=0)
    with raises(ValueError, "more trees", 1):
        Locus(g, engine=few, calibration=OutOfBag()).fit(X[:2], y[:2])
