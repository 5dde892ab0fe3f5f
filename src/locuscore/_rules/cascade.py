"""A certificate for a whole cascade: small model, large model, person."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._rules.betting import generator_seeded_by
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.cascade_path import (
    CandidateCascades,
    GradedRows,
    likeliest_start,
    safe_to_cheap,
)
from locuscore._rules.cascade_rule import CascadeRule, check_models, check_same_models
from locuscore._rules.certificate import CascadeCertificate
from locuscore._rules.certify import CHOSEN_BEFORE, INDEPENDENT, ONE_CALL
from locuscore._rules.threshold_counts import digest_of_rows
from locuscore._rules.thresholds import Start, largest_certified, why_none_passed
from locuscore._shared.checks import (
    as_floats,
    check_between,
    check_losses,
    check_numbers,
    check_same_order,
    check_scores,
    one_tau,
)
from locuscore._shared.readable import as_typed

PATH_SHARE = 0.25  # of the rows: fixes the path where no reference is given
ALL_GRADED = "every model's answer graded on every certifying row, whoever would have answered"
PATH_FIXED = "path of thresholds and its start fixed without the certifying rows"
SAME_MODELS = "the same models and scores in use as in certifying"


def certify_cascade(
    scores: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    costs: Sequence[float],
    among_all: bool = False,
    models: Sequence[str] | None = None,
    reference: ArrayLike | None = None,
    reference_losses: ArrayLike | None = None,
) -> CascadeRule:
    """Cheapest cascade on a path that keeps the share of bad answers sent at most eta.

    Models are asked in turn. The first whose score is at most its threshold answers; if there is
    none, a person does, whose answers are never bad here. The result satisfies ``P(Z > tau | an
    answer was sent) <= eta`` with confidence ``1 - delta``, where Z is the loss of the answer that
    was sent. At thresholds fixed in advance the number of bad answers among the n sent is binomial,
    which gives the exact p-value ``P(Binomial(n, eta) <= bad)``. One path of thresholds, from safe
    to cheap, is fixed on other rows and tested from a start to the first failure, so the
    probability of certifying any step that breaks eta is at most delta (fixed-sequence testing).
    Nothing is assumed of the scores, of the path, or of how the models' mistakes hang together.

    Parameters
    ----------
    scores, losses
        Arrays or frames of shape (n, models), one column for each model in the order in which they
        are asked, one row per certifying question. Scores are small where safe; an infinite score
        is never accepted. Every model's answer must be graded on every row.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad answers allowed among those sent; delta is
        the probability, over the certifying rows, that the certificate is wrong.
    costs
        Cost of asking each model, in the same order, and then of a person, for one question. A
        question that a person answers has cost all of them.
    among_all
        True for ``P(sent and Z > tau) <= eta`` instead, the share among all questions.
    models
        Names of the models; None for the columns of `scores`.
    reference, reference_losses
        Scores and losses of other graded rows, which fix the path; then delta is exact. Without
        them a quarter of the rows is set aside for that and not tested on. It is drawn by a
        generator that a digest of the rows, in their order, has seeded, and taken for random.

    Returns
    -------
    CascadeRule
        With thresholds -inf if nothing can be certified; its guarantee and evidence then say how
        many rows would have been needed.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_cascade
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(size=(2000, 2))
    >>> losses = rng.uniform(size=(2000, 2)) < [0.6, 0.3] * scores**2
    >>> rule = certify_cascade(scores, losses, 0.5, 0.1, 0.1, costs=[1, 10, 200])
    >>> [len(rule.thresholds), bool(rule.accepts(scores).mean() > 0.8)]
    [2, True]
    """
    names = _names(scores, models)
    rows = _checked(scores, losses, tau, _check_costs(costs, len(names)), "")
    share, error = check_between(eta, "eta"), check_between(delta, "delta")
    if (reference is None) != (reference_losses is None):
        raise ValueError("the path needs both reference and reference_losses, or neither.")
    if reference is not None and reference_losses is not None:
        check_same_models(reference, names)
        known = _checked(reference, reference_losses, tau, rows.costs, "reference_")
        if known.scores.shape[1] != len(names):
            raise ValueError(f"reference must have {len(names)} columns, as scores has.")
        source = f"a path fixed on {len(known)} reference rows"
    else:
        rows, known = _set_aside(rows)
        source = f"a path fixed on {len(known)} rows set aside and not tested on"
    claim = CascadeCertificate(
        n_models=len(names), n_rows=len(rows), tau=float(tau), eta=share, delta=error,
        among="all questions" if among_all else "answers sent",
        costs=tuple(rows.costs.tolist()), thresholds=source, rows_digest=digest_of_rows(losses),
    )  # fmt: skip
    path = safe_to_cheap(known, share, among_all)
    before = CandidateCascades.along(known, path, among_all)
    start = likeliest_start(before, len(rows), share, error)
    steps = CandidateCascades.along(rows, path, among_all)
    return _rule(names, steps, Start(start, error), claim)


def _rule(
    names: tuple[str, ...], steps: CandidateCascades, start: Start, claim: CascadeCertificate
) -> CascadeRule:
    """The rule at the last certified step; without one, a rule that says what was missing."""
    certified, tested = largest_certified(steps, [start], claim.eta)
    at_start, bad_at_start = steps.count(start.position)
    claim = replace(claim, start_n=at_start, start_bad=bad_at_start)
    if certified is None:
        words = "the start of the path", "Fewer answers, by another path,"
        clean, total, why = why_none_passed(steps, [start], claim.eta, *words)
        thresholds = (-math.inf,) * len(names)
        guarantee = f"A person answers everything: no cascade could be certified. {why}"
        claim = replace(
            claim, accepted_rows_needed_without_a_bad_one=clean, rows_needed_at_this_rate=total
        )
    else:
        thresholds = tuple(steps.path[certified].tolist())
        by = steps.by[certified]
        n, bad = steps.count(certified)
        claim = replace(
            claim,
            step=certified,
            n_sent=int(by[:-1].sum()),
            n_bad=bad,
            answered_by=tuple((by / steps.n_rows).tolist()),
            cost=_cost(by, claim.costs),
            p_value=float(binomial_p_value(bad, n, claim.eta)),
        )
        guarantee = _sentence(claim)
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, ALL_GRADED, PATH_FIXED, SAME_MODELS, ONE_CALL)
    table = _table(names, steps, tested, claim)
    return CascadeRule(names, thresholds, "certificate", guarantee, assumptions, claim, table)


def _sentence(claim: CascadeCertificate) -> str:
    is_joint = claim.among == "all questions"
    above = f"loss > {as_typed(claim.tau)}"
    event = f"{above} and sent" if is_joint else f"{above} | sent"
    return (
        f"P({event}) <= {claim.eta:g} for a new question, whichever model's answer is sent, with "
        f"confidence {1 - claim.delta:g}: over the draw of the {claim.n_rows} certifying rows, the "
        f"probability that this fails is at most {claim.delta:g}."
    )


def _table(
    names: tuple[str, ...],
    steps: CandidateCascades,
    tested: tuple[int, int],
    claim: CascadeCertificate,
) -> dict[str, tuple[float, ...]]:
    """The steps that were tested: thresholds, answers sent, bad ones, p-value, mean cost."""
    at = np.arange(*tested)
    n, bad = steps.counts(at)
    columns: dict[str, Any] = {"step": at}
    columns |= {f"at_{name}": part for name, part in zip(names, steps.path[at].T, strict=True)}
    columns |= {"n_sent": steps.by[at, :-1].sum(axis=1), "n_bad": bad}
    columns["p_value"] = binomial_p_value(bad, n, claim.eta)
    columns["cost"] = np.array([_cost(by, claim.costs) for by in steps.by[at]])
    return {name: tuple(column.tolist()) for name, column in columns.items()}


def _cost(by: Any, costs: Sequence[float]) -> float:
    """Mean cost of a question, given how many each model and the person answered."""
    return float(np.dot(by, np.cumsum(costs)) / by.sum())


def _set_aside(rows: GradedRows) -> tuple[GradedRows, GradedRows]:
    """Three quarters of the rows to test on, and a random quarter to fix the path."""
    columns = [*rows.scores.T, *rows.bad.T.astype(np.float64)]
    # In the order given. Sorted first, rows that tie would have few digests, each of which is one
    # split: with one score for all rows, eta was broken in up to 41 % of samples at delta = 10 %.
    order = generator_seeded_by(*columns).permutation(len(rows))
    # A random part: given which rows are set aside, the others are still a sample of the same law.
    aside, testing = np.split(order, [math.ceil(PATH_SHARE * len(rows))])
    if not len(testing):
        raise ValueError(
            f"{len(rows)} row cannot both fix the path and test it; pass more rows, or reference "
            "rows for the path."
        )
    return rows.take(np.sort(testing)), rows.take(np.sort(aside))


def _names(scores: Any, models: Sequence[str] | None) -> tuple[str, ...]:
    shape = np.shape(scores)
    if len(shape) != 2:
        raise ValueError(
            "scores must have one row per question and one column per model, such as "
            f"np.column_stack([small, large]); got shape {shape}."
        )
    columns = getattr(scores, "columns", None)
    if models is None and columns is not None:
        models = [str(name) for name in columns]
    names = check_models([f"model {i + 1}" for i in range(shape[1])] if models is None else models)
    if len(names) != shape[1]:
        raise ValueError(f"models has {len(names)} names, and scores has {shape[1]} columns.")
    return names


def _checked(
    scores: ArrayLike, losses: ArrayLike, tau: float, costs: FloatArray, prefix: str
) -> GradedRows:
    """Return scores and bad answers; `prefix` tells which argument is meant in a message."""
    first, second = prefix.rstrip("_") or "scores", f"{prefix}losses"
    check_same_order(**{first: scores, second: losses})
    s, z = as_floats(scores, first), as_floats(losses, second)
    if s.ndim != 2 or s.shape != z.shape or not len(s):
        raise ValueError(
            f"{first} and {second} must have one row per question and one column per model; got "
            f"shapes {s.shape} and {z.shape}."
        )
    parts = [check_scores(**{first: column})[0] for column in s.T]
    bad = [check_losses(column, len(z), second) > one_tau(tau) for column in z.T]
    return GradedRows(np.column_stack(parts), np.column_stack(bad), costs)


def _check_costs(costs: Sequence[float], n_models: int) -> FloatArray:
    values = check_numbers(costs, "costs")
    if values.shape != (n_models + 1,) or not np.all(np.isfinite(values) & (values >= 0)):
        raise ValueError(
            f"costs must be {n_models + 1} finite non-negative numbers, one per model and one for "
            f"a person; got {costs!r:.100}."
        )
    return values
