"""What a certificate will accept, and how many labels it needs: simulated from a pilot."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import IntArray
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.certify import claim_on
from locuscore._rules.planned_starts import TRIAL_SEED, Pilot, Samples, planned_start
from locuscore._rules.thresholds import distinct_reference
from locuscore._shared.accepted import sorted_finite
from locuscore._shared.checks import check_between, check_count
from locuscore._shared.shown import Shown

MOST_ROWS = 1_000_000
FINENESS = 1.05  # numbers of rows are found up to this factor
SPREAD = (0.1, 0.9)  # 8 of 10 simulated certificates


@dataclass(frozen=True, repr=False)
class CertificatePlan(Shown):
    """What a certificate on so many labelled rows accepts, in simulation.

    `acceptance` is the mean share of rows accepted, `low` and `high` hold between them 8 of 10
    simulated certificates, and `nothing` is the share of those that accept nothing. What the pilot
    does not know is in the spread: it is drawn anew for each of them. It is an estimate.

    Examples
    --------
    >>> from locuscore import CertificatePlan
    >>> plan = CertificatePlan(800, 0.5, 0.4, 0.6, 0.01, n_pilot=500, eta=0.1, delta=0.1)
    >>> print(str(plan)[:66])
    With 800 labelled rows a certificate of P(loss > tau | accepted) <
    """

    rows: int
    acceptance: float
    low: float
    high: float
    nothing: float
    n_pilot: int
    eta: float
    delta: float

    def __str__(self) -> str:
        return (
            f"With {self.rows:,} labelled rows a certificate of P(loss > tau | accepted) <= "
            f"{self.eta:g} (delta = {self.delta:g}) accepts about {self.acceptance:.0%} of the "
            f"rows; 8 of 10 simulated ones accept {self.low:.0%} to {self.high:.0%}, and "
            f"{self.nothing:.0%} of them nothing. An estimate from a pilot of {self.n_pilot:,} "
            "rows, whose own uncertainty is included."
        )


def plan_certificate(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    rows: int | None = None,
    acceptance: float | None = None,
) -> CertificatePlan:
    """Simulate `certify_threshold` on `rows` labelled rows, or find how many accept a share.

    The procedure that is simulated is the whole one: a start planned on the pilot, then a sequence
    up to the first failure. So pass the pilot to `certify_threshold` as `reference` and
    `reference_losses`, and fresh rows to certify on. `rows_for_certificate` is about one threshold
    that is chosen beforehand, and needs no pilot.

    Parameters
    ----------
    score, losses
        The pilot: labelled rows like those to come, which will not be certified on.
    tau, eta, delta
        The claim, as in `certify_threshold`.
    rows
        Labelled rows to be certified on.
    acceptance
        Instead of `rows`: the mean share to be accepted. The number of rows is found up to 5 %.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plan_certificate
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=500)
    >>> losses = rng.uniform(size=500) < 0.02 + 0.6 * score**2
    >>> plan = plan_certificate(score, losses, 0.5, eta=0.1, delta=0.1, rows=800)
    >>> bool(0.4 < plan.acceptance < 0.64)
    True
    """
    s, bad, claim = claim_on(score, losses, tau, eta, delta)
    return plan_on(Pilot.of(s, bad), claim, rows, acceptance)


def plan_on(
    pilot: Pilot, claim: ExceedanceCertificate, rows: int | None, acceptance: float | None
) -> CertificatePlan:
    """`plan_certificate` on a pilot."""
    if (rows is None) == (acceptance is None):
        raise ValueError("pass rows or acceptance: one of them, and the other is found.")
    if rows is not None:
        return _simulated(pilot, claim, check_count(rows, "rows"))
    assert acceptance is not None
    return _enough(pilot, claim, check_between(acceptance, "acceptance"))


def _enough(pilot: Pilot, claim: ExceedanceCertificate, wanted: float) -> CertificatePlan:
    """The fewest rows whose mean acceptance is the one wanted, up to `FINENESS`."""
    too_few, plan = 0, _simulated(pilot, claim, 16)
    while plan.acceptance < wanted:
        if plan.rows >= MOST_ROWS:
            raise ValueError(
                f"even {MOST_ROWS:,} rows would accept {plan.acceptance:.3g} on average, not "
                f"{wanted:g}: the pilot says that no threshold accepts so many at eta = "
                f"{claim.eta:g}."
            )
        too_few, plan = plan.rows, _simulated(pilot, claim, min(2 * plan.rows, MOST_ROWS))
    while plan.rows > max(FINENESS * too_few, too_few + 1):
        middle = _simulated(pilot, claim, round((too_few * plan.rows) ** 0.5) or plan.rows // 2)
        if middle.acceptance < wanted:
            too_few = middle.rows
        else:
            plan = middle
    return plan


def _simulated(pilot: Pilot, claim: ExceedanceCertificate, n_rows: int) -> CertificatePlan:
    """What certificates on n rows accept in samples that had no part in the choice of the start."""
    share = _accepted(pilot, claim, n_rows) / n_rows
    low, high = np.quantile(share, SPREAD)
    mean, nothing = float(share.mean()), float(np.mean(share == 0))
    facts = len(pilot.bad), claim.eta, claim.delta
    return CertificatePlan(n_rows, mean, float(low), float(high), nothing, *facts)


def _accepted(pilot: Pilot, claim: ExceedanceCertificate, n_rows: int) -> IntArray:
    edge = distinct_reference(sorted_finite(pilot.score))
    plan = planned_start(pilot, edge, n_rows, claim)
    if plan is None:
        return np.zeros(1, dtype=np.int64)
    side: Literal["left", "right"] = "left" if plan.on_ranks else "right"
    samples = Samples.of(pilot, n_rows, side, TRIAL_SEED, cautious=False)
    at = plan.start.position
    if plan.on_ranks:
        return samples.accepted_from_ranks(np.array([at]), claim.eta, claim.delta)[:, 0]
    return samples.accepted(claim.eta, claim.delta)[:, int(np.searchsorted(samples.edge, edge[at]))]
