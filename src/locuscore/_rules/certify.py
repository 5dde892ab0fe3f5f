"""Certified thresholds: with confidence 1 - delta, P(Z > tau | accepted) <= eta.

Functions of arrays; docs/rules.md has the proofs.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.planned_starts import Pilot, planned_start
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import (
    check_grid,
    checked_rows,
    digest_of_rows,
    threshold_table,
)
from locuscore._rules.thresholds import (
    CandidateThresholds,
    Start,
    distinct_reference,
    largest_certified,
    quantile_starts,
    rank_starts,
    why_none_passed,
)
from locuscore._shared.accepted import sorted_finite
from locuscore._shared.bisect import first_above
from locuscore._shared.checks import check_between, check_numbers, check_scores
from locuscore._shared.multiple_tests import holm
from locuscore._shared.readable import as_typed

INDEPENDENT = "independent rows, certifying and new, all drawn alike"
CHOSEN_BEFORE = "score, tau, eta and delta chosen without the certifying rows' losses"
OWN_SCORES = "every row's own score, tested on the rows strictly below it"
START_FIXED = "the start planned on rows that are independent of the certifying ones"
ONE_CALL = "one certificate per delta: several calls on the same rows need their deltas summed"


def certify_threshold(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    of: Score = UNNAMED,
    reference: ArrayLike | None = None,
    reference_losses: ArrayLike | None = None,
    starts: Sequence[float] | None = None,
) -> FlagRule:
    """Largest threshold certified to keep ``P(Z > tau | score <= threshold)`` at most eta.

    At each threshold the number of bad rows among the n accepted is binomial, which gives the exact
    p-value ``P(Binomial(n, eta) <= bad)`` for "more than eta of the accepted are bad". Thresholds
    are tested in ascending order from a start to the first failure, so the probability of
    certifying any threshold that breaks eta is at most delta (fixed-sequence testing; with several
    starts, each has its share of delta). The risk need not rise with the score.

    Parameters
    ----------
    score, losses
        One entry per certifying row. Rows with an infinite score, of either sign, are never
        accepted.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among the accepted; delta is
        the probability, over the certifying rows, that the certificate is wrong.
    of
        Which score this is.
    reference
        Scores of other rows. Their distinct values are the thresholds, and their quantiles the
        starts. Without it every row's own score is a threshold, tested on the rows strictly below
        it, and starts are ranks; no row is set aside. Neither way certifies more in all cases.
        Where many scores tie, a reference is better: a start inside a block of ties has only the
        rows below the whole block.
    reference_losses
        Losses of the reference rows. Then the one start is the one that accepts most in samples
        drawn from these rows; thresholds are the certifying rows' own scores, unless more than a
        twentieth of the reference ties. The rows should be drawn like the certifying ones.
    starts
        Shares of the rows at which sequences begin, with equal parts of delta; None for a start at
        0.4 and, where rows suffice, further ones at 0.1, 0.025, ... with a tenth of delta.

    Returns
    -------
    FlagRule
        With threshold -inf if nothing can be certified; its guarantee and evidence then say how
        many rows would have been needed.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> rule = certify_threshold(score, losses, tau=0.5, eta=0.1, delta=0.1)
    >>> bool(0.5 < rule.threshold < 0.64)
    True
    """
    s, bad, claim = claim_on(score, losses, tau, eta, delta)
    shares = None if starts is None else check_starts(starts)
    # Thresholds from other rows are fixed as far as the certifying rows are concerned; their own
    # scores need the argument of `CandidateThresholds.own_scores`.
    if reference is None:
        if reference_losses is not None:
            raise ValueError("reference_losses were given without the reference scores.")
        return certify_rows(s, bad, claim, of, shares)
    (other,) = check_scores(reference=reference)
    if reference_losses is None:
        return certify_on_reference(s, bad, claim, of, other, shares)
    if shares is not None:
        raise ValueError("starts and reference_losses both choose the start; pass one of them.")
    labels = checked_rows(other, reference_losses, tau)[1]
    return certify_planned(s, bad, claim, of, other, Pilot.of(other, labels))


def certify_threshold_holm(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    grid: ArrayLike,
    *,
    of: Score = UNNAMED,
) -> FlagRule:
    """Largest threshold of a grid certified by exact tests with Bonferroni-Holm.

    Needs no start and no order, and pays for it: each of m thresholds is first held against
    ``delta / m``. The grid must be fixed without the certifying rows; 20 or fewer points are best.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold_holm
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> grid = np.linspace(0.1, 0.9, 9)
    >>> rule = certify_threshold_holm(score, losses, tau=0.5, eta=0.1, delta=0.1, grid=grid)
    >>> round(rule.threshold, 1)
    0.5
    """
    s, bad, claim = claim_on(score, losses, tau, eta, delta)
    candidates = CandidateThresholds.on_grid(s, bad, check_grid(grid))
    size = len(candidates.edge)
    n, n_bad = candidates.counts(slice(None))
    # Holm's error bound holds for all thresholds together, so the largest that passed may be taken.
    found = np.flatnonzero(holm(binomial_p_value(n_bad, n, claim.eta), claim.delta))
    certified = int(found[-1]) if len(found) else None
    claim = replace(claim, thresholds=f"a grid of {size}, Bonferroni-Holm")
    # What was missing is measured at delta / size, against which the smallest p-value is held.
    tests = [Start(position, claim.delta / size) for position in range(size)]
    words = "the threshold that came closest", "A grid with lower thresholds"
    return _rule(of, candidates, certified, (0, size), claim, tests, *words)


def certify_threshold_paper(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    grid: ArrayLike,
    *,
    of: Score = UNNAMED,
) -> FlagRule:
    """Largest threshold of a grid certified by the paper's bound (Theorem 5).

    ``joint + slack_joint <= eta * (accepted - slack_accepted)`` with the shares of accepted bad and
    of accepted rows, ``slack_accepted = sqrt(log(4 / delta) / (2 N))`` and ``slack_joint = 2
    sqrt(log(2 (N + 1)) / N) + slack_accepted``. For fidelity: at ``eta = delta = 0.1`` it needs
    5,795 rows even if all are accepted and none is bad, where the exact test needs 22.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold_paper
    >>> rng = np.random.default_rng(0)
    >>> score, losses = rng.uniform(size=1000), np.zeros(1000)
    >>> rule = certify_threshold_paper(score, losses, tau=0.5, eta=0.1, delta=0.1, grid=[0.5, 1.0])
    >>> rule.accepts_nothing  # none of 1,000 rows is bad, and the bound still needs more
    True
    """
    s, bad, claim = claim_on(score, losses, tau, eta, delta)
    candidates = CandidateThresholds.on_grid(s, bad, check_grid(grid))
    slack_accepted, slack_joint = paper_slacks(len(s), claim.delta)
    claim = replace(claim, slack_joint=slack_joint, slack_accepted=slack_accepted)
    n, n_bad = candidates.counts(slice(None))
    joint, accepted = n_bad / len(s), n / len(s)
    # The bounds hold at all thresholds at once, so any that meets them may be taken. Written
    # without a division, the condition also rules out a denominator that is not positive.
    feasible = np.flatnonzero(joint + slack_joint <= claim.eta * (accepted - slack_accepted))
    if len(feasible):
        best = int(feasible[-1])
        threshold = float(candidates.edge[best])
        claim = replace(claim, n_accepted=int(n[best]), n_bad=int(n_bad[best]))
        guarantee = f"Theorem 5: {_sentence(claim)}"
    else:
        needed = paper_rows(claim.eta, claim.delta)
        threshold, claim = -np.inf, replace(claim, rows_needed_without_a_bad_one=needed)
        guarantee = (
            "Nothing is accepted: no threshold meets the bound of Theorem 5. It needs at least "
            f"{needed} rows, all accepted and none bad."
        )
    table = threshold_table(candidates.edge, n, n_bad)
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, "grid fixed without the certifying rows")
    return FlagRule(
        of, threshold, "certificate", guarantee, assumptions, table=table, certificate=claim
    )


def claim_on(
    score: ArrayLike, losses: ArrayLike, tau: float, eta: float, delta: float
) -> tuple[FloatArray, BoolArray, ExceedanceCertificate]:
    """The checked scores, whether each row is bad, and the claim to be certified on them."""
    s, bad = checked_rows(score, losses, tau)
    target, error = check_between(eta, "eta"), check_between(delta, "delta")
    claim = ExceedanceCertificate(n_rows=len(s), tau=float(tau), eta=target, delta=error)
    return s, bad, replace(claim, rows_digest=digest_of_rows(losses))


def certify_rows(
    score: FloatArray,
    bad: BoolArray,
    claim: ExceedanceCertificate,
    of: Score,
    shares: FloatArray | None = None,
) -> FlagRule:
    """Certify on the rows' own scores, from fixed ranks up."""
    candidates = CandidateThresholds.own_scores(score, bad)
    starts = rank_starts(len(score), claim, shares)
    return _certify_upwards(of, candidates, starts, replace(claim, thresholds=OWN_SCORES))


def certify_on_reference(
    score: FloatArray,
    bad: BoolArray,
    claim: ExceedanceCertificate,
    of: Score,
    reference: FloatArray,
    shares: FloatArray | None = None,
) -> FlagRule:
    """Certify at the scores of other rows, from their quantiles up."""
    ranked = sorted_finite(reference)
    candidates = CandidateThresholds.on_grid(score, bad, distinct_reference(ranked))
    starts = quantile_starts(candidates, ranked, len(reference), claim, shares)
    claim = replace(claim, thresholds=_scores_of(reference))
    return _certify_upwards(of, candidates, starts, claim)


def certify_planned(
    score: FloatArray,
    bad: BoolArray,
    claim: ExceedanceCertificate,
    of: Score,
    reference: FloatArray,
    pilot: Pilot,
) -> FlagRule:
    """Certify from the start that was planned on the pilot, by ranks or at the reference's scores.

    Where nothing passes in any sample of the pilot, the starts are those without a pilot.
    """
    edge = distinct_reference(sorted_finite(reference))
    plan = planned_start(pilot, edge, len(score), claim)
    if plan is None:
        return certify_rows(score, bad, claim, of)
    if plan.on_ranks:
        candidates, thresholds = CandidateThresholds.own_scores(score, bad), OWN_SCORES
    else:
        candidates = CandidateThresholds.on_grid(score, bad, edge)
        thresholds = _scores_of(reference)
    thresholds = f"{thresholds}; the start planned on {plan.n_pilot} other labelled rows"
    claim = replace(claim, thresholds=thresholds)
    return _certify_upwards(of, candidates, [plan.start], claim, START_FIXED)


def _scores_of(reference: FloatArray) -> str:
    return f"the scores of {len(reference)} reference rows"


def paper_slacks(n_rows: int, delta: float) -> tuple[float, float]:
    """The two epsilons of Theorem 5: of the accepted share, and of the joint share."""
    # Each holds at all thresholds at once with half of delta: the first by Dvoretzky, Kiefer and
    # Wolfowitz, the second by McDiarmid, since N rows tell only N + 1 thresholds apart.
    accepted = math.sqrt(math.log(4.0 / delta) / (2.0 * n_rows))
    return accepted, 2.0 * math.sqrt(math.log(2.0 * (n_rows + 1)) / n_rows) + accepted


def paper_rows(eta: float, delta: float) -> int:
    """Smallest N at which Theorem 5 can certify: all rows accepted, none of them bad."""

    # Both slacks fall with n, so bisection is right.
    def is_enough(n: int) -> bool:
        accepted, joint = paper_slacks(n, delta)
        return joint <= eta * (1.0 - accepted)

    return first_above(is_enough, 1, 2)


def _certify_upwards(
    of: Score,
    candidates: CandidateThresholds,
    starts: Sequence[Start],
    claim: ExceedanceCertificate,
    *assumed: str,
) -> FlagRule:
    """Test in ascending order from each start."""
    certified, tested = largest_certified(candidates, starts, claim.eta)
    claim = replace(
        claim,
        starts_at_n=tuple(candidates.count(start.position)[0] for start in starts),
        start_levels=tuple(start.level for start in starts),
    )
    words = "its best start", "A lower start (see `starts`)"
    rule = _rule(of, candidates, certified, tested, claim, starts, *words)
    return replace(rule, assumptions=(*rule.assumptions, *assumed))


def _rule(
    of: Score,
    candidates: CandidateThresholds,
    certified: int | None,
    tested: tuple[int, int],
    claim: ExceedanceCertificate,
    starts: Sequence[Start],
    where: str,
    lower: str,
) -> FlagRule:
    """The rule at the certified position; without one, a rule that says what was missing."""
    table = candidates.table(tested, certified, claim.eta)
    assumptions = [INDEPENDENT, CHOSEN_BEFORE, ONE_CALL]
    if candidates.side == "right":  # own scores need no such promise
        assumptions.insert(2, "thresholds and starts fixed without the certifying rows")
    if certified is None:
        clean, total, why = why_none_passed(candidates, starts, claim.eta, where, lower)
        threshold = -np.inf
        guarantee = f"Nothing is accepted: no threshold could be certified. {why}"
        claim = replace(
            claim, accepted_rows_needed_without_a_bad_one=clean, rows_needed_at_this_rate=total
        )
    else:
        n, bad = candidates.count(certified)
        threshold = float(candidates.thresholds(np.array([certified]))[0])
        p_value = float(binomial_p_value(bad, n, claim.eta))
        share = n / candidates.n_rows
        claim = replace(claim, n_accepted=n, n_bad=bad, acceptance=share, p_value=p_value)
        guarantee = _sentence(claim)
    return FlagRule(
        of, threshold, "certificate", guarantee, tuple(assumptions), table=table, certificate=claim
    )


def _sentence(claim: ExceedanceCertificate) -> str:
    return (
        f"P(loss > {as_typed(claim.tau)} | accepted) <= {claim.eta:g} for a new row, with "
        f"confidence {1 - claim.delta:g}: over the draw of the {claim.n_rows} certifying rows, the "
        f"probability that this fails is at most {claim.delta:g}."
    )


def check_starts(starts: Sequence[float]) -> FloatArray:
    """Return shares of the rows at which sequences begin, ascending."""
    shares = np.unique(check_numbers(starts, "starts"))
    if not np.all((shares > 0) & (shares <= 1)):
        raise ValueError(f"starts are shares of the rows, above 0 and at most 1; got {starts!r}.")
    return shares
