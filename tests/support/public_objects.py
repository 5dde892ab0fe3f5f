"""One instance of every public class, with hostile text where the caller chooses it."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import locuscore as lc
from archives_for_tests import ENGINES, NEED_EXTRAS, rows, small_scorer
from browser_for_tests import HOSTILE
from locuscore import calibration, draws, engines, metrics
from locuscore.calibration import ByGroup, CrossFit
from locuscore.engines import Forest
from locuscore.report import Batch, Costs, Provenance, compare, report
from locuscore.testing import GENERATORS

LONG = " ".join([HOSTILE] * 200)


def certificates():
    """One of each kind of claim, with every number that it can have."""
    claim = lc.ExceedanceCertificate(
        n_rows=123_456, tau=70_000.0, eta=0.05, delta=0.05, thresholds=LONG,
        starts_at_n=tuple(range(100)), start_levels=(0.1,) * 100, n_accepted=99_999, n_bad=4_321,
        acceptance=0.81, p_value=1e-300, calibration="b9b7c066c7918026", rows_also_in_fit=3,
    )  # fmt: skip
    return [
        claim,
        lc.ExceedanceClaim(tau=1.0, eta=0.1, group=HOSTILE),
        lc.MeanLossClaim(eta=0.2, support=(0, 5)),
        lc.JointClaim(tau=1.0, alpha=0.1, n=10, k=9, level=0.1, coverage_beta=(9.0, 2.0)),
        lc.GroupCertificate(LONG, claim),
        lc.MeanLossCertificate(eta=0.1, delta=0.1, low=0.0, high=1.0),
        lc.ClusterCertificate(n_clusters=9, tau=1.0, eta=0.1, delta=0.1),
        lc.WeightedCertificate(tau=1.0, eta=0.1, delta=0.1, largest_weight=2.0),
        lc.CascadeCertificate(n_models=2, tau=1.0, eta=0.1, delta=0.1, costs=(1.0, 2.0)),
        lc.TunedExceedance(tau=1.0, eta=0.1),
    ]


def rules():
    """Rules and what else is made of a score and losses."""
    rng = np.random.default_rng(0)
    score = rng.uniform(size=3000)
    losses = (rng.uniform(size=3000) < 0.3 * score).astype(float)
    groups = rng.choice([HOSTILE, "a", "b"], 3000)
    goal = {"tau": 0.5, "eta": 0.1, "delta": 0.05}
    both = np.column_stack([score, score**2]), np.column_stack([losses, losses])
    return [
        lc.certify_threshold(score, losses, **goal, of=lc.Score.other(HOSTILE)),
        lc.certify_threshold(score[:9], losses[:9], **goal),
        lc.tune_threshold(score, losses, tau=0.5, eta=0.1),
        lc.certify_groups(score, losses, groups, **goal),
        lc.certify_cascade(*both, **goal, models=[HOSTILE, "large"], costs=[1.0, 9.0, 20.0]),
        lc.operating_curve(score, losses, 0.5),
        lc.operating_curve(np.full(30, np.inf), losses[:30], 0.5),
        lc.route(score, 200),
        lc.select_batch(score, score, losses, 0.5, 0.1),
        lc.select_total_loss(score, score, losses, 0.1, largest_loss=1),
        lc.exceedance_interval(losses, score < 0.5, 0.5),
        lc.anytime_certificate(score, **goal),
        lc.plan_certificate(score[:300], losses[:300], **goal, rows=100),
        lc.plan_labels(score, 60, **goal, reference=score, reference_losses=losses),
    ]


def measures():
    """What metrics return."""
    rng = np.random.default_rng(0)
    z, bound = rng.uniform(size=300), rng.uniform(size=300)
    period = metrics.PeriodScores(HOSTILE, 300, 0.9, 1.0, 0.1, 0.0)
    return [
        metrics.exceedance_rates(z, z > 0.5, 0.5),
        metrics.exceedance_curve(z, bound, 0.5),
        metrics.local_coverage(z, bound, rng.uniform(size=300)),
        metrics.pit_uniformity(z),
        period,
    ]


def core_objects():
    """Instances of all public classes that need no extra."""
    X, y = rows(400)
    g = RandomForestRegressor(5, random_state=0).fit(X[:50], y[:50])
    scorer = small_scorer(g, X, y, signals="all", unit='<i onclick="x()">')
    locus, few = scorer.locus, Forest(n_trees=2, min_samples_leaf=20)
    town = np.where(X[:, 0] < 0.5, HOSTILE, "b")
    made = report(scorer, *rows(300, seed=1), title=LONG)
    block = next(iter(locus.blocks(X)))
    ones = np.ones((500, 7))
    candidates = {HOSTILE: few, "other": Forest(n_trees=3), "broken": Broken()}
    with pytest.warns(lc.LocusWarning):
        selection = engines.select_engine(candidates, X, np.abs(y), random_state=0)
    return [
        locus,
        lc.Locus(LONG, loss="absolute", unit=LONG, support=list(range(1000))),
        lc.Locus(g, engine=few, calibration=CrossFit(2), signals="x").fit(X, y),
        lc.Locus(g, engine=few, calibration=ByGroup(town), signals="x").fit(X, y),
        lc.Locus(None, engine="scale", signals="x").fit_losses(X, np.abs(y)),
        scorer,
        lc.Scorer(locus),
        made,
        compare(made, made),
        Costs(review=300, bad=12_000, unit="dollars"),
        Provenance(data=LONG, data_digest="0" * 64, archive=LONG, approved=LONG),
        Batch(X, y),
        locus.adapt(alpha=[0.1, 0.2]),
        *certificates(),
        *rules(),
        *measures(),
        locus.loss_dist(X),
        block,
        next(iter(block.laws())),
        scorer.columns[0],
        lc.Given(groups=town),
        lc.KNNGamma(),
        lc.Kept("Own", fields=("a_", "b_")),
        lc.rows_for_certificate(0.1, 0.05, bad_rate=0.05, acceptance=0.7),
        locus.schema_,
        lc.Schema("pandas", (HOSTILE,) * 900, ("Float64",) * 900),
        lc.Score.bound(0.1),
        lc.Score.other(HOSTILE),
        lc.cost(np.eye(30)),
        lc.norm("max", [1.0] * 90),
        *GENERATORS.values(),
        calibration.Marginal(),
        calibration.OutOfBag(),
        calibration.ClusterRows(9),
        CrossFit(5),
        ByGroup(town),
        calibration.Shifted(np.ones(400)),
        locus.calibration_,
        lc.Reuse(locus.used_rows_, locus.schema_, labels="y"),
        draws.NormalDraws(ones, ones),
        selection,
        *(make() for name, make in ENGINES.items() if name not in NEED_EXTRAS),
    ]


class Broken:
    """An engine that cannot be fitted."""

    def fit(self, S, z):
        raise ValueError(HOSTILE)

    def predict_draws(self, S):
        raise NotImplementedError
