"""A certificate that loosens while labels arrive, with one delta for its whole life.

Thresholds, their order and all bets are fixed before the first label. Rows come one after another,
drawn alike, and each is labelled with a chance q that may depend on its x and on all rows before
it, but not on its own loss; q is known and at least `least`. For a threshold t and a rate theta
below eta let ::

    lambda = (eta - theta) / (eta (1 - eta)),    v = least / q,
    f = 1 + lambda v (eta - 1{Z > tau})    if the row is labelled and s <= t,    else 1.

**One threshold.** A factor is positive, since ``lambda v (1 - eta) < 1``. Given the rows before,
its mean is ``1 + lambda least E[1{s <= t} (eta - 1{Z > tau})]``: the chance q of a label cancels
the weight 1 / q. If t breaks eta, ``P(Z > tau | s <= t) > eta``, that is below 1. So products of
factors, and mixtures of them over fixed theta, are supermartingales that start at 1, and by Ville's
inequality such a mixture E_t *ever* reaches ``1 / delta`` with probability at most delta.

**Many thresholds.** Take them in ascending order from a start. A threshold is certified once it and
all before it in the order have reached ``1 / delta``, each at a time of its own. Let t* be the
first in the order that breaks eta. To certify any threshold that does, at any time, E_t* must reach
``1 / delta``, which has probability at most delta. So ::

    P(at some time, a certified threshold breaks eta) <= delta

for every number of thresholds and of looks, whatever the shape of the risk. Several starts share
delta. What was certified stays so: the rule never has to tighten while rows are drawn alike.

A row that was drawn for its label and got none counts as bad, which makes its factor smaller, so it
is at most the factor of the proof. With equal chances all v are 1, and a factor is the likelihood
ratio of the rates theta and eta. Looks are taken after each batch; within one, order is no matter,
but losses must not decide which rows are in it, as they would if rows waited for their labels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from locuscore._laws.scores import UNNAMED, Score, check_score
from locuscore._protocols import FloatArray
from locuscore._rules.anytime_bets import (
    RATES,
    bet_sizes,
    bet_weights,
    check_least,
    clean_rows,
    rates_up_to,
    thresholds,
    usual_starts,
)
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.certify import ONE_CALL, check_starts
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import checked_rows
from locuscore._shared.checks import as_floats, check_between, check_numbers, check_scores, one_tau
from locuscore._shared.json_values import from_json, to_json

SEEN = ("count", "bad", "weight", "weight_bad")

ASSUMPTIONS = (
    "rows come independently, all drawn alike, those that are not labelled too",
    "each row is labelled with its known chance, which its loss does not change",
    "no row waits for its label while rows that came after it are passed",
    "score, tau, eta, delta and thresholds chosen without the losses of these rows",
    ONE_CALL,
)


def anytime_certificate(
    reference: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    reference_losses: ArrayLike | None = None,
    starts: Sequence[float] | None = None,
    least: float = 1.0,
    of: Score = UNNAMED,
) -> "AnytimeCertificate":
    """Begin a certificate that loosens while labels arrive and holds at all times at once.

    With probability at least 1 - delta, ``P(Z > tau | accepted) <= eta`` for *every* rule that the
    certificate ever gives, however often one looks; the module has the proof. It begins by
    accepting nothing.

    Parameters
    ----------
    reference
        Scores of other rows, such as those of D1. At most 200 of their quantiles are the
        thresholds.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among the accepted; delta is
        the probability that any rule of this certificate is ever wrong.
    reference_losses
        Losses of the reference rows, which then say where evidence will grow fastest. That is the
        start, and half of the bets are made at their rates.
    starts
        Shares of the reference at which sequences begin, with equal parts of delta; None for one at
        0.4, or where the losses say, and two lower ones with a tenth of delta.
    least
        The least chance with which any row will be labelled, fixed beforehand.
    of
        Which score this is.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import anytime_certificate
    >>> rng = np.random.default_rng(0)
    >>> certificate = anytime_certificate(rng.uniform(size=500), 0.5, 0.1, 0.1, least=0.5)
    >>> for week in range(8):
    ...     score = rng.uniform(size=500)
    ...     losses = rng.uniform(size=500) < 0.3 * score**2
    ...     labelled = rng.uniform(size=500) < 0.5
    ...     certificate = certificate.after(score[labelled], losses[labelled], 0.5)
    >>> bool(0.6 < certificate.rule.threshold < 1)
    True
    """
    (other,) = check_scores(reference=reference)
    eta, delta = check_between(eta, "eta"), check_between(delta, "delta")
    bad = None
    if reference_losses is not None:
        if starts is not None:
            raise ValueError("starts and reference_losses both choose the start; pass one of them.")
        bad = checked_rows(other, reference_losses, tau)[1]
    edges, up_to = thresholds(other)
    rates = None if bad is None else rates_up_to(other, bad, edges)
    if starts is None:
        shares, parts = usual_starts(up_to / len(other), rates, eta)
    else:
        shares = check_starts(starts)
        parts = np.full(len(shares), 1.0 / len(shares))
    at = np.searchsorted(up_to, np.minimum(np.ceil(shares * len(other)), up_to[-1]))
    m = len(edges)
    none_seen: dict[str, Any] = {name: np.zeros(m + 1) for name in SEEN}
    return AnytimeCertificate(
        of=check_score(of),
        tau=one_tau(tau),
        eta=eta,
        delta=delta,
        least=check_least(least),
        thresholds=edges,
        starts=at.astype(np.float64),
        levels=delta * parts,
        weights=bet_weights(rates, m, eta),
        gains=np.zeros((m, len(RATES))),
        largest=np.zeros(m),
        **none_seen,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class AnytimeCertificate:
    """A certificate after some labels; `after` gives it after more, and `rule` what it certifies.

    Made by `anytime_certificate`. `thresholds` ascend; sequences begin at the positions `starts`
    with the parts `levels` of delta. Of each threshold, `weights` are those of its bets, `gains`
    the logarithms of what they have won on rows up to it and above the one before, and `largest` is
    the logarithm of the most that it ever had. Labelled rows are counted in the same way, and those
    above the last threshold at the end. `cursor` is the number of the last row of a ledger that was
    seen, see `Watch.loosen`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import AnytimeCertificate, anytime_certificate
    >>> begun = anytime_certificate(np.linspace(0, 1, 100), tau=0.5, eta=0.1, delta=0.1)
    >>> after = begun.after(np.linspace(0, 1, 200), np.zeros(200))
    >>> after.n_labelled, begun.n_labelled
    (200, 0)
    >>> AnytimeCertificate.from_state(after.state()).rule.threshold
    1.0
    """

    of: Score
    tau: float
    eta: float
    delta: float
    least: float
    thresholds: FloatArray
    starts: FloatArray
    levels: FloatArray
    weights: FloatArray
    gains: FloatArray
    largest: FloatArray
    count: FloatArray
    bad: FloatArray
    weight: FloatArray
    weight_bad: FloatArray
    cursor: int = 0

    def __repr__(self) -> str:
        return (
            f"AnytimeCertificate(tau={self.tau:g}, eta={self.eta:g}, delta={self.delta:g}, "
            f"labelled={self.n_labelled:,}, threshold={self.rule.threshold:g})"
        )

    @property
    def n_labelled(self) -> int:
        """Labelled rows seen so far."""
        return int(self.count.sum())

    def after(
        self,
        score: ArrayLike,
        losses: ArrayLike,
        chance: ArrayLike = 1.0,
        *,
        cursor: int | None = None,
    ) -> Self:
        """The certificate after more rows, each given once, in the order in which they came.

        Never as their labels arrive: if good rows get theirs sooner, the rule is wrong. Wait until
        labels are due, and pass all rows drawn up to then.

        Parameters
        ----------
        score, losses
            Rows that were drawn for a label. NaN is the loss of one that got none; it counts as
            bad. Rows that were not drawn need not be given: they change nothing.
        chance
            With which each was drawn, from `least` to 1: one for all, or one for each.
        """
        at = self.cursor if cursor is None else cursor
        if not (np.size(score) or np.size(losses)):  # no row was drawn
            return replace(self, cursor=at)
        s, z, q = self._checked(score, losses, chance)
        is_bad = ~(z <= self.tau)  # without a label too
        v = self.least / q
        place = np.searchsorted(self.thresholds, s)  # the first threshold that accepts the row

        def summed(values: FloatArray | None) -> FloatArray:
            return np.bincount(place, values, len(self.thresholds) + 1).astype(np.float64)

        logs = np.log1p(np.outer(v * (self.eta - is_bad), bet_sizes(self.eta)))
        gains = self.gains + np.column_stack([summed(column)[:-1] for column in logs.T])
        seen: tuple[FloatArray | None, ...] = (None, is_bad.astype(np.float64), v, v * is_bad)
        more = {
            name: getattr(self, name) + summed(values)
            for name, values in zip(SEEN, seen, strict=True)
        }
        largest = np.maximum(self.largest, self._evidence(gains))
        return replace(self, gains=gains, largest=largest, cursor=at, **more)

    def _checked(
        self, score: ArrayLike, losses: ArrayLike, chance: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        z = as_floats(losses, "losses")
        filled = np.where(np.isnan(z), np.inf, z)
        given = check_numbers(chance, "chance")
        q = np.full(z.shape, given) if given.ndim == 0 else given
        s, known, q = check_scores(score=score, losses=filled, chance=q)
        wrong = int(np.count_nonzero(~((q >= self.least) & (q <= 1))))
        if wrong:
            raise ValueError(
                f"chances of {wrong} rows are not from least = {self.least:g}, which was fixed at "
                f"the beginning, to 1; got {q.min():g} to {q.max():g}. Begin with a smaller least."
            )
        return s, known, q

    def _evidence(self, gains: FloatArray) -> FloatArray:
        """Logarithm of each threshold's mixture of bets."""
        return np.asarray(logsumexp(np.cumsum(gains, axis=0), axis=1, b=self.weights))

    @property
    def _certified(self) -> int | None:
        """Position of the largest threshold that was certified so far."""
        ends = []
        for start, level in zip(self.starts.astype(int), self.levels, strict=True):
            failed = np.flatnonzero(self.largest[start:] < -math.log(level))
            end = start + int(failed[0]) if len(failed) else len(self.largest)
            if end > start:
                ends.append(end - 1)
        return max(ends, default=None)

    @cached_property
    def rule(self) -> FlagRule:
        """The rule that is certified by now."""
        claim = ExceedanceCertificate(
            n_rows=self.n_labelled,
            tau=self.tau,
            eta=self.eta,
            delta=self.delta,
            thresholds=f"{len(self.thresholds)} quantiles of a reference, at all times at once",
            starts_at_n=tuple(np.cumsum(self.count)[self.starts.astype(int)].astype(int).tolist()),
            start_levels=tuple(self.levels.tolist()),
        )
        at = self._certified
        if at is None:
            claim, threshold, guarantee = self._none(claim)
        else:
            claim, threshold = self._found(claim, at), float(self.thresholds[at])
            guarantee = (
                f"P(loss > {self.tau:g} | accepted) <= {self.eta:g} for a new row, with confidence "
                f"{1 - self.delta:g} for this rule and for all that this certificate has given or "
                f"will give: the probability that any of them fails is at most {self.delta:g}."
            )
        return FlagRule(
            self.of,
            threshold,
            "certificate",
            guarantee,
            ASSUMPTIONS,
            table={name: tuple(column.tolist()) for name, column in self._table().items()},
            certificate=claim,
        )

    def _table(self) -> dict[str, FloatArray]:
        n, bad, weight, weight_bad = (np.cumsum(getattr(self, name)[:-1]) for name in SEEN)
        rate = np.divide(weight_bad, weight, out=np.full(len(n), math.nan), where=weight > 0)
        columns = {"threshold": self.thresholds, "n_accepted": n, "n_bad": bad, "exceedance": rate}
        return columns | {"p_value": np.exp(-self.largest)}

    def _found(self, claim: ExceedanceCertificate, at: int) -> ExceedanceCertificate:
        n, bad, weight, _ = (float(getattr(self, name)[: at + 1].sum()) for name in SEEN)
        return replace(
            claim,
            n_accepted=int(n),
            n_bad=int(bad),
            acceptance=weight / float(self.weight.sum()),
            p_value=math.exp(-float(self.largest[at])),
        )

    def _none(self, claim: ExceedanceCertificate) -> tuple[ExceedanceCertificate, float, str]:
        """Why nothing is accepted yet, from the start that came closest."""
        starts = self.starts.astype(int)
        i = int(np.argmax(self.largest[starts] + np.log(self.levels)))
        start, level = int(starts[i]), float(self.levels[i])
        needed = clean_rows(self.weights[start], self.eta, level)
        n, bad = (int(getattr(self, name)[: start + 1].sum()) for name in ("count", "bad"))
        why = (
            f"Nothing is accepted yet: at its best start {bad} of {n} labelled rows are bad; "
            f"{needed} without a bad one, all labelled with the chance {self.least:g}, are the "
            "least that can pass."
        )
        claim = replace(claim, accepted_rows_needed_without_a_bad_one=needed)
        return claim, -math.inf, why

    def state(self) -> dict[str, Any]:
        """Everything, in the types JSON has."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        state: dict[str, Any] = to_json(found | {"of": self.of.to_dict()})
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The certificate that `state` described."""
        names = {one.name for one in fields(cls)}
        if not isinstance(state, Mapping) or set(state) != names:
            raise ValueError(
                f"the state of an anytime certificate has the parts {', '.join(sorted(names))}; "
                f"got {state!r:.200}."
            )
        try:
            values = from_json({key: value for key, value in state.items() if key != "of"})
            arrays = {
                key: np.array(value, dtype=np.float64)
                for key, value in values.items()
                if isinstance(value, tuple)
            }
            made = cls(of=Score.from_dict(state["of"]), **values | arrays)
            is_sound = _is_sound(made)
        except (ArithmeticError, AttributeError, TypeError, ValueError, LookupError) as error:
            raise ValueError(f"this is no state of an anytime certificate: {error}") from error
        if not is_sound:
            raise ValueError(
                "this is no state of an anytime certificate: its numbers contradict each other."
            )
        return made


def _is_sound(made: AnytimeCertificate) -> bool:
    """Whether the numbers of a state can be those of a certificate."""
    m, k = max(len(made.thresholds), 1), max(len(made.starts), 1)
    sized = (made.gains, made.weights, made.largest, made.levels, made.thresholds, made.starts)
    seen = np.array([getattr(made, name) for name in SEEN])
    check_between(made.eta, "eta")
    check_between(made.delta, "delta")
    check_least(made.least)
    one_tau(made.tau)
    finite = (made.thresholds, made.gains, made.largest, made.weights, made.levels, seen)
    return bool(
        [one.shape for one in sized] == [(m, len(RATES))] * 2 + [(m,), (k,), (m,), (k,)]
        and seen.shape == (len(SEEN), m + 1)
        and all(np.all(np.isfinite(one)) for one in finite)
        and np.all(np.diff(made.thresholds) > 0)
        and np.all((made.starts >= 0) & (made.starts < m) & (made.starts % 1 == 0))
        and np.all(made.weights >= 0)
        and np.all(made.weights.sum(axis=1) <= 1 + 1e-9)
        and np.all(made.levels > 0)
        and made.levels.sum() <= made.delta * (1 + 1e-9)
        and np.all(made.largest >= made._evidence(made.gains) - 1e-6)
        and np.all((seen >= 0) & (seen[1] <= seen[0]))
        and type(made.cursor) is int
        and made.cursor >= 0
    )
