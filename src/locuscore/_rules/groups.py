"""One certified threshold per group, all of them right together."""

from collections.abc import Collection, Hashable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray
from locuscore._rules.binomial_tests import rows_needed
from locuscore._rules.certificate import ExceedanceCertificate, GroupCertificate
from locuscore._rules.certify import (
    CHOSEN_BEFORE,
    INDEPENDENT,
    ONE_CALL,
    certify_on_reference,
    certify_rows,
    claim_on,
)
from locuscore._rules.group_rule import GroupRule, check_by
from locuscore._rules.rule import FlagRule
from locuscore._shared.checks import check_same_order, check_scores
from locuscore._shared.labels import label_codes

WITHIN = "rows alike within a group"
POOL_FIXED = "the pooled groups named without the certifying rows"
POOL_MIXED = "rows of the pooled groups drawn together, each group as often as among new rows"


def certify_groups(
    score: ArrayLike,
    losses: ArrayLike,
    groups: ArrayLike | Collection[Hashable],
    tau: float,
    eta: float,
    delta: float,
    *,
    of: Score = UNNAMED,
    pool: Collection[Hashable] = (),
    by: str | int | None = None,
    reference: ArrayLike | None = None,
) -> GroupRule:
    """One certified threshold per group, all of them right together with confidence 1 - delta.

    ``P(Z > tau | accepted, group) <= eta`` in every group at once: delta is divided equally over
    the groups that have enough rows to be certified at all. The others accept nothing and say how
    many rows they would need. For groups on their own it holds given the number of rows in each.
    For a pool it holds given the number of rows in the whole pool, not in each of its groups: see
    `pool`.

    Parameters
    ----------
    groups
        One label per row, of any hashable type; missing ones are refused.
    pool
        Groups, usually small, that share one rule. It is certified on all their rows together, and
        its guarantee is for their mixture and not for each of them. So the pooled groups must
        appear among these rows in the same shares as among new rows, up to chance: no quota of rows
        per group, and not more of one because it was easy to label. Choose them without these rows:
        groups pooled because few of these rows fell into them are no sample of their mixture.
    by
        Name of the column of new rows that holds their group, or its position in an array. Without
        it, groups are passed with new rows, as ``groups=``.
    reference
        Scores of other rows of any group, whose distinct values are the thresholds in every group,
        as in `certify_threshold`; better where many scores tie.

    Returns
    -------
    GroupRule
        A rule for each group, in the order in which groups first appear, as one rule to deploy.
    """
    by = check_by(by)
    check_same_order(score=score, groups=groups)
    s, bad, claim = claim_on(score, losses, tau, eta, delta)
    names, member = label_codes(groups, len(s))
    shared = _check_pool(pool, names)
    other = None if reference is None else check_scores(reference=reference)[0]
    # Each unit is certified on its own: a group, or the pool, which has the number -1.
    unit_of = [-1 if name in shared else i for i, name in enumerate(names)]
    unit = np.array(unit_of)[member]
    where = {i: f"group {name!r}" for i, name in enumerate(names)}
    where[-1] = f"the {len(shared)} pooled groups together"
    units, sizes = np.unique(unit, return_counts=True)
    needed = rows_needed(0, claim.eta, claim.delta / len(units))
    # The guarantee holds given the sizes, so they may decide how delta is divided.
    n_rules = int(np.sum(sizes >= needed))
    together = f"All {n_rules} rules hold together with confidence {1 - claim.delta:g}."
    rules = {}
    for u, size in zip(units.tolist(), sizes.tolist(), strict=True):
        if size < needed:
            own = replace(claim, n_rows=size, delta=claim.delta / len(units))
            rule = _too_small(of, where[u], needed, own)
        else:
            own = replace(claim, n_rows=size, delta=claim.delta / n_rules)
            rule = _certify_unit(s[unit == u], bad[unit == u], own, of, other)
            rule = replace(rule, guarantee=f"In {where[u]}: {rule.guarantee} {together}")
        rules[u] = _within(rule, where[u], is_pool=u < 0)
    return GroupRule({name: rules[u] for name, u in zip(names, unit_of, strict=True)}, by)


def _certify_unit(
    score: FloatArray,
    bad: BoolArray,
    claim: ExceedanceCertificate,
    of: Score,
    reference: FloatArray | None,
) -> FlagRule:
    """Certify on the rows of a group or of the pool."""
    if reference is None:
        return certify_rows(score, bad, claim, of)
    return certify_on_reference(score, bad, claim, of, reference)


def _within(rule: FlagRule, where: str, *, is_pool: bool) -> FlagRule:
    """The rule as one for a group or the pool, with what is assumed of its rows."""
    assert isinstance(rule.certificate, ExceedanceCertificate)
    more = (WITHIN, POOL_MIXED, POOL_FIXED) if is_pool else (WITHIN,)
    certificate = GroupCertificate(where, rule.certificate)
    return replace(rule, assumptions=(*rule.assumptions, *more), certificate=certificate)


def _check_pool(pool: Collection[Hashable], names: list[Hashable]) -> set[Hashable]:
    if isinstance(pool, str | bool):
        raise TypeError(f"pool must be a list of groups; got {pool!r}.")
    unknown = [name for name in pool if name not in names]
    if unknown:
        raise ValueError(f"pool names groups that have no rows: {unknown!r}.")
    return set(pool)


def _too_small(of: Score, where: str, needed: int, claim: ExceedanceCertificate) -> FlagRule:
    """A rule that accepts nothing; for the delta of the claim, so many rows would be needed."""
    guarantee = (
        f"Nothing is accepted: {where} has {claim.n_rows} rows, and with its part of delta, "
        f"{claim.delta:.4g}, at least {needed} are needed, all accepted and none bad."
    )
    claim = replace(claim, accepted_rows_needed_without_a_bad_one=needed)
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, ONE_CALL)
    return FlagRule(of, -np.inf, "certificate", guarantee, assumptions, certificate=claim)
