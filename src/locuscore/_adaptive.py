"""AdaptiveBounds: bounds on a stream whose long-run coverage holds for every sequence of rows.

Adaptive conformal inference (Gibbs and Candes, 2021), over batches and with delayed labels. The
state of one alpha is two counts, T labels applied and E of them above their bound, and rows are
decided at

    alpha_t = alpha + step * (T * alpha - E).

Where ``alpha_t <= 0`` the bound is the top of the support, which no loss exceeds, and where
``alpha_t >= 1`` it is -inf, which every loss exceeds.

**The promise.** Let D be such that a label is applied before more than D rows are decided, counted
from its own row on. Then for every sequence of rows, losses and delays, and after every T labels,

    E / T - alpha <= (alpha + step * (1 - alpha) * D) / (step * T),
    alpha - E / T <= (1 - alpha + step * alpha * D) / (step * T).

Proof. By definition ``E / T - alpha = (alpha - alpha_t) / (step * T)``, so alpha_t must be shown to
be at least ``-step * (1 - alpha) * D``. If it is above 0, nothing is to be shown. Otherwise go back
to the last time it was above 0 (at the start it is alpha). Rows decided after that have the top as
their bound and are never above it. So each label that has lowered alpha_t since, by ``step * (1 -
alpha)``, is of a row that was waiting for its label at that time, or was decided right then. At
most D rows were: the first of them that was decided had to have its label before D more were. The
other side is the same with ``alpha_t >= 1``, where each label raises it by ``step * alpha``.

Both are at most ``(max(alpha, 1 - alpha) + step * D) / (step * T)``. Nothing was asked of the
bounds between the two ends, so a stream may go on with a recalibrated `Locus`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import Score
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._row_scores import RowScores
from locuscore._shared.checks import check_alpha, check_between, check_losses
from locuscore._shared.frames import as_array, as_rows, like_rows, numbered
from locuscore._shared.json_values import from_json, to_json

STEP = 0.001
PARTS = ("alpha", "step", "labels", "above", "decided", "longest_wait", "next_ticket", "waiting")


@dataclass(frozen=True, eq=False)
class Decision:
    """Bounds of one batch, and the ticket under which its labels are applied.

    `bound` has the shape that `Locus.loss_bound` gives; `alpha` is the alpha_t of each alpha.
    """

    ticket: int
    bound: Any
    alpha: FloatArray


@dataclass(frozen=True)
class LongRun:
    """What is promised of the share above the bound after `labels` labels, for one alpha.

    ``least <= share_above <= most`` holds for every sequence of rows; `longest_wait` is D, the most
    rows decided from one row on, itself included, before its label was applied. Without labels
    nothing is promised.
    """

    alpha: float
    labels: int
    longest_wait: int
    share_above: float
    least: float
    most: float

    @property
    def sentence(self) -> str:
        """The promise in words."""
        if not self.labels:
            return "No label was applied yet, so nothing is promised yet."
        return (
            f"Of the {self.labels:,} rows whose labels were applied, at most the share "
            f"{self.most:.4g} can be above its bound (alpha = {self.alpha:g}), whatever the rows "
            f"are: no label came after more than {self.longest_wait:,} decided rows. It is "
            f"{self.share_above:.4g}. No single row has a promise of its own."
        )


@dataclass(eq=False)
class _Waiting:
    """Rows of a batch that wait for labels: serial number of its first row, bounds (n, m)."""

    start: int
    bounds: FloatArray
    is_open: np.ndarray


class AdaptiveBounds:
    """Bounds on a stream, with an alpha_t that goes down after a loss above its bound, and up else.

    Each label applied moves ``alpha_t`` by ``step * (alpha - 1{loss > bound shown})``. After T
    labels, for every sequence of rows,

    ``share above - alpha <= (alpha + step * (1 - alpha) * D) / (step * T)``,

    where D is the most rows decided from one row on, itself included, before its label is applied.
    The share is not below alpha by more than ``(1 - alpha + step * alpha * D) / (step * T)``. The
    module has the proof. Without a limit on D nothing is promised, nor for any single row. Where
    ``alpha_t <= 0`` the bound is the top of the support, which may be infinite; where ``alpha_t >=
    1`` it is -inf. Several alphas adapt on their own, so their bounds may cross.

    Made by `Locus.adapt`. It holds state, and is for one thread.

    Parameters
    ----------
    locus
        A fitted `Locus`.
    alpha
        Share of losses above their bound, in the long run; or several.
    step
        How far a label moves alpha_t. A larger step follows changes faster and makes the promise
        stronger, and bounds less steady: infinite ones begin when about ``alpha / step / (1 -
        alpha)`` more losses than usual are above.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1200, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=1200)
    >>> stream = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000]).adapt(alpha=0.1)
    >>> today = stream.bound(X[1000:1100])
    >>> stream.update(today.ticket, X[1000:1100], y[1000:1100])
    >>> stream.promise()[0].labels
    100
    """

    def __init__(
        self,
        locus: RowScores,
        alpha: float | Sequence[float] | FloatArray = 0.1,
        *,
        step: float = STEP,
    ) -> None:
        self.locus = locus
        self.alpha = check_alpha(alpha)
        self.step = check_between(step, "step")
        self.labels = 0
        self.above = np.zeros(self.alpha.size, dtype=np.int64)
        self.decided = 0
        self.longest_wait = 0
        self._next_ticket = 0
        self._waiting: dict[int, _Waiting] = {}

    @property
    def alpha_now(self) -> FloatArray:
        """The alpha_t at which the next batch is decided, one for each alpha."""
        # From counts, so that rounding does not add up.
        alphas = np.atleast_1d(self.alpha)
        return alphas + self.step * (self.labels * alphas - self.above)

    @property
    def waiting(self) -> dict[int, IntArray]:
        """Positions of the rows that wait for their labels, by ticket."""
        return {ticket: np.flatnonzero(one.is_open) for ticket, one in self._waiting.items()}

    def bound(self, X: Rows, *, groups: Any = None, weights: Any = None) -> Decision:
        """Bound the losses of a batch at the present alpha_t; labels may come later.

        `groups` and `weights` are those of `Locus.loss_bound`.
        """
        now = self.alpha_now
        inside = (now > 0) & (now < 1)
        scores = [Score.bound(float(share)) for share in now[inside]]
        _, values = self.locus.joint_scores(X, scores, groups=groups, weights=weights)
        bounds = np.where(now >= 1, -np.inf, self.locus.support_.high)[None, :]
        bounds = np.repeat(bounds, len(values), axis=0)
        bounds[:, inside] = values
        ticket, n = self._next_ticket, len(bounds)
        self._next_ticket += 1
        if n:
            self._waiting[ticket] = _Waiting(self.decided, bounds, np.ones(n, dtype=bool))
        self.decided += n
        shown = bounds.copy() if self.alpha.ndim else bounds[:, 0].copy()
        named = like_rows(as_rows(X), shown, numbered("bound", self.alpha))
        return Decision(ticket, named, now)

    def update(self, ticket: int, X: Rows, y: ArrayLike, *, rows: ArrayLike | None = None) -> None:
        """Apply labels to rows of a batch: X are these rows again, y their true values.

        `rows` are their positions in the batch; None if it is the whole batch. Each row has its
        label once. Batches may get theirs in any order, and in parts.
        """
        self.update_losses(ticket, as_array(self.locus.losses(X, y)), rows=rows)

    def update_losses(self, ticket: int, z: ArrayLike, *, rows: ArrayLike | None = None) -> None:
        """Apply the realised losses of rows of a batch; see `update`."""
        batch = self._batch(ticket)
        at = self._positions(ticket, batch, rows)
        losses = self.locus.support_.check(check_losses(as_array(z), len(at), "z"))
        if not len(at):
            return
        self.above = self.above + np.sum(losses[:, None] > batch.bounds[at], axis=0)
        self.labels += len(at)
        self.longest_wait = max(self.longest_wait, self.decided - batch.start - int(at.min()))
        batch.is_open[at] = False
        if not batch.is_open.any():
            del self._waiting[ticket]

    def drop(self, ticket: int) -> None:
        """Forget the rows of a batch whose labels will never come; the promise is not for them."""
        self._batch(ticket)
        del self._waiting[ticket]

    def promise(self) -> tuple[LongRun, ...]:
        """What holds of the labels applied so far, for each alpha."""
        return tuple(
            self._long_run(float(alpha), int(above))
            for alpha, above in zip(np.atleast_1d(self.alpha), self.above, strict=True)
        )

    def state(self) -> dict[str, Any]:
        """Everything but the `Locus`, in the types JSON has; see `Locus.resume`."""
        waiting = [
            {
                "ticket": ticket,
                "start": one.start,
                "rows": np.flatnonzero(one.is_open),
                "n": len(one.bounds),
                "bounds": one.bounds[one.is_open],
            }
            for ticket, one in self._waiting.items()
        ]
        counts = (self.labels, self.above, self.decided, self.longest_wait, self._next_ticket)
        values = (self.alpha, self.step, *counts, waiting)
        state: dict[str, Any] = to_json(dict(zip(PARTS, values, strict=True)))
        return state

    @classmethod
    def from_state(cls, locus: RowScores, state: Mapping[str, Any]) -> Self:
        """The stream that `state` described; see `Locus.resume`."""
        if not isinstance(state, Mapping) or set(state) != set(PARTS):
            raise ValueError(
                f"the state of a stream has the parts {', '.join(PARTS)}; got {state!r:.200}."
            )
        try:
            return cls._from(locus, from_json(state))
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"this is no state of a stream ({error!r}).") from error

    @classmethod
    def _from(cls, locus: RowScores, state: Mapping[str, Any]) -> Self:
        stream = cls(locus, state["alpha"], step=state["step"])
        m = stream.alpha.size
        stream.labels, stream.decided = _count(state["labels"]), _count(state["decided"])
        stream.above = np.array([_count(one) for one in state["above"]], dtype=np.int64)
        stream.longest_wait = _count(state["longest_wait"])
        stream._next_ticket = _count(state["next_ticket"])
        for one in state["waiting"]:
            n, rows = _count(one["n"]), [_count(row) for row in one["rows"]]
            is_open, bounds = np.zeros(n, dtype=bool), np.full((n, m), np.inf)
            is_open[rows] = True
            bounds[rows] = np.array(one["bounds"], dtype=np.float64).reshape(len(rows), m)
            if np.isnan(bounds).any() or not rows:
                raise ValueError("the waiting rows of this state have no bounds.")
            stream._waiting[_count(one["ticket"])] = _Waiting(_count(one["start"]), bounds, is_open)
        n_waiting = sum(len(rows) for rows in stream.waiting.values())
        is_sound = (
            len(stream.above) == m
            and bool(np.all(stream.above <= stream.labels))
            and stream.labels + n_waiting <= stream.decided
            and all(ticket < stream._next_ticket for ticket in stream._waiting)
        )
        if not is_sound:
            raise ValueError("the counts of this state of a stream contradict each other.")
        return stream

    def _long_run(self, alpha: float, above: int) -> LongRun:
        n, wait = self.labels, self.longest_wait
        if not n:
            return LongRun(alpha, 0, 0, 0.0, 0.0, 1.0)
        most = alpha + (alpha / self.step + (1.0 - alpha) * wait) / n
        least = alpha - ((1.0 - alpha) / self.step + alpha * wait) / n
        return LongRun(alpha, n, wait, above / n, max(0.0, least), min(1.0, most))

    def _batch(self, ticket: Any) -> _Waiting:
        is_number = isinstance(ticket, int | np.integer)
        if is_number and ticket in self._waiting:
            return self._waiting[ticket]
        if is_number and 0 <= ticket < self._next_ticket:
            raise ValueError(
                f"no row of ticket {ticket} waits for a label: all were applied, or dropped. A "
                "label counts once."
            )
        shown = ", ".join(map(str, list(self._waiting)[:10])) or "none"
        raise ValueError(f"there is no ticket {ticket!r}; tickets that wait: {shown}.")

    def _positions(self, ticket: int, batch: _Waiting, rows: ArrayLike | None) -> IntArray:
        """Positions of distinct rows that wait for their labels."""
        n = len(batch.bounds)
        if rows is None:
            at = np.arange(n)
        else:
            at = np.asarray(rows)
            if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
                raise ValueError(
                    f"rows are positions in the batch, 0 to {n - 1}; got {rows!r:.100}."
                )
            at = at.astype(np.int64)
        if at.size and (at.min() < 0 or at.max() >= n):
            raise ValueError(
                f"ticket {ticket} has the rows 0 to {n - 1}; got {at.min()} to {at.max()}."
            )
        known = np.flatnonzero(~batch.is_open[at])
        if len(known) or len(np.unique(at)) < len(at):
            raise ValueError(
                f"a label counts once, and {len(known) or 'some'} of these rows of ticket {ticket} "
                "have had theirs or come twice; pass rows=, the positions of the others."
            )
        return at


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"a state of a stream counts rows by whole numbers; got {value!r}.")
    return value
