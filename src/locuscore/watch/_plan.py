"""How many rows to audit, so that an alarm notices in time: the shipped alarm, simulated."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from locuscore._shared.bisect import first_between
from locuscore._shared.checks import check_between, check_count, check_share
from locuscore._shared.progress import spinner
from locuscore._shared.seeds import spawn_seeds
from locuscore.watch._claims import Claim
from locuscore.watch._instruments import alarm_of

SIMULATIONS, FEWER = 300, 60  # streams, and those of a first look
MOST_ROWS = 200_000  # of a stream
CLOSE = 0.02  # the number is found up to this share of it


@dataclass(frozen=True)
class AuditPlan:
    """Rows to audit in a week, and what the simulation of the alarm showed with them.

    `noticed` is the share of simulated streams with an alarm in time, after none before; its
    standard error is `standard_error`.

    Examples
    --------
    >>> from locuscore.watch import plan_audits
    >>> plan = plan_audits(0.2, after=0.6, weeks_before=4)
    >>> int(plan) == plan.per_week and plan.noticed >= 0.8
    True
    """

    per_week: int
    goal: str
    noticed: float
    simulations: int

    @property
    def standard_error(self) -> float:
        """Of `noticed`, from the number of simulations."""
        return math.sqrt(self.noticed * (1.0 - self.noticed) / self.simulations)

    def __int__(self) -> int:
        return self.per_week

    def __str__(self) -> str:
        return (
            f"{self.per_week:,} audits a week: {self.goal} Of {self.simulations} simulated streams "
            f"{self.noticed:.0%} had the alarm in time (standard error {self.standard_error:.1%})."
        )


def plan_audits(
    claim: Claim | float,
    *,
    before: float | None = None,
    after: float | None = None,
    weeks: int = 4,
    weeks_before: int = 26,
    power: float = 0.8,
    delta: float = 0.05,
    labelled: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
) -> AuditPlan:
    """How many rows to audit in a week, so that an alarm notices within some weeks.

    Streams are simulated that are well for `weeks_before` and then have the rate `after`; each is
    given to the alarm that `Watch` uses. The number of audits is the least, up to 2 %, with which
    the share `power` of them has an alarm within `weeks`. Audited rows are those that the claim is
    about: for a certificate, accepted ones.

    Parameters
    ----------
    claim
        What is promised, one of `claims_of`: a share of bad rows, above their bounds, or accepted
        and bad. Or the share eta of a certificate that is the only claim of its watch.
    before, after
        Rates of bad rows before and after the change; by default what is promised, and twice that.
    weeks, weeks_before, power
        See above. Alarms that come after a long time need more evidence.
    delta
        That of the watch; the claim has its `share` of it.
    labelled
        Share of the audited rows whose label comes in time. The others count as good.

    Examples
    --------
    >>> from locuscore.watch import plan_audits
    >>> plan = plan_audits(0.1)
    >>> 30 < plan.per_week < 90
    True
    """
    claim = _claim(claim)
    promised = check_between(claim.promised, "what is promised")
    healthy = promised if before is None else check_share(before, "before")
    broken = 2.0 * promised if after is None else check_share(after, "after")
    share = check_share(labelled, "labelled")
    if not promised < broken * share <= 1 or healthy > promised:
        raise ValueError(
            f"{promised:g} is promised, so the rate before must be at most that, and the rate "
            f"after times the share of labels above it and at most 1; got before = {healthy:g}, "
            f"after = {broken:g} and labelled = {share:g}."
        )
    lasts = check_count(weeks, "weeks"), check_count(weeks_before, "weeks_before", 0)
    wanted = check_between(power, "power")
    alarm_delta = check_between(delta, "delta")
    (seed,) = spawn_seeds(random_state, 1)

    def noticed(per_week: int, simulations: int = SIMULATIONS) -> float:
        if per_week * sum(lasts) > MOST_ROWS:
            raise ValueError(
                f"more than {per_week // 2:,} audits a week would be needed. Allow more weeks, or "
                "plan for a larger change; for coverage and joint shares, more calibration rows."
            )
        rates = healthy * share, broken * share
        found = [
            _notices(claim, alarm_delta, (seed, i), per_week, lasts, rates)
            for i in range(simulations)
        ]
        return sum(found) / simulations

    with spinner("simulating the alarm"):
        near = 1
        while noticed(near, FEWER) < wanted:
            near *= 2
        best = _least(lambda n: noticed(n) >= wanted, near)
    goal = (
        f"an alarm of the {claim.name} is raised within {lasts[0]} weeks with probability "
        f"{wanted:g} if the rate goes from {healthy:g} to {broken:g} after {lasts[1]} weeks, with "
        f"delta = {alarm_delta * claim.share:.3g} for it."
    )
    return AuditPlan(best, goal, noticed(best), SIMULATIONS)


def _claim(given: Claim | float) -> Claim:
    if not isinstance(given, Claim):
        eta = check_between(given, "claim")
        return Claim(name="share of bad rows", kind="accepted", promised=eta, share=1.0)
    if given.kind in ("mean loss", "exchangeable") or given.unit == "cluster":
        raise ValueError(
            "audits are planned for claims on a share of rows; got one on the "
            f"{given.name}, counted by {given.unit}."
        )
    if not given.is_tested:
        raise ValueError(f"the claim on the {given.name} is not tested: {given.why_not}.")
    return given


def _notices(
    claim: Claim,
    delta: float,
    seed: tuple[int, int],
    per_week: int,
    lasts: tuple[int, int],
    rates: tuple[float, float],
) -> bool:
    """Whether the alarm rings after the change, and not before, in one simulated stream."""
    n_after, n_before = (per_week * weeks for weeks in lasts)
    # Of each part the first draws are the same for every number of audits, so that numbers are
    # compared with the same luck.
    parts = [
        np.random.default_rng([*seed, k]).uniform(size=n) < rate
        for k, (n, rate) in enumerate(zip((n_before, n_after), rates, strict=True))
    ]
    alarm = alarm_of(claim, delta)
    alarm.update(np.concatenate(parts).astype(np.float64))
    return alarm.alarmed_at is not None and alarm.alarmed_at > n_before


def _least(is_enough: Callable[[int], bool], near: int) -> int:
    """The least number that is enough, up to a share of it, by doubling and halving."""
    high = near
    while not is_enough(high):
        high *= 2
    step = max(1, int(CLOSE * high))
    low = high // 2
    at = first_between(lambda j: is_enough(low + j * step), 0, -(-(high - low) // step))
    return min(low + at * step, high)
