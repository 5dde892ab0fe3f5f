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
bounds between the two ends. So the level at alpha_t may come from the newest rows of the stream
instead of D2: where data drift far, alpha_t would have to stay near 0, where bounds are infinite.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._inputs.unseen import unseen_said_once
from locuscore._laws.calibration import MarginalCalibration, check_tails
from locuscore._laws.scores import Score
from locuscore._protocols import Calibration, FloatArray, IntArray, Rows
from locuscore._row_scores import Given, RowScores
from locuscore._shared.checks import check_alpha, check_between, check_count, check_losses
from locuscore._shared.frames import as_array, like_rows, n_rows, numbered
from locuscore._shared.json_values import from_json, to_json
from locuscore._shared.shown import Shown, cut, value_text
from locuscore._stream.waiting_rows import Batch, WaitingRows, read_count, read_floats

# Chosen on simulated drifts and on bike hires, see benchmarks/choices/steps_in_time.py.
LARGEST_STEP, STEP_OF_BATCH = 0.005, 0.1
SMALLEST_WINDOW, BATCHES_OF_WINDOW = 1_000, 20
COUNTS = ("labels", "decided", "longest_wait", "next_ticket")
PARTS = ("alpha", "step", "window", *COUNTS, "above", "tails", "waiting", "support")


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Shown):
    """Bounds of one batch, and the ticket under which its labels are applied.

    `bound` has the shape that `Locus.loss_bound` gives; `alpha` is the alpha_t of each alpha.
    """

    ticket: int
    bound: Any
    alpha: FloatArray


@dataclass(frozen=True, repr=False)
class LongRun(Shown):
    """What is promised of the share above the bound after `labels` labels, for one alpha.

    ``least <= share_above <= most`` holds for every sequence of rows; `longest_wait` is D, the most
    rows decided from one row on, itself included, before its label was applied. As long as labels
    come within that, `most` is below 1 after `begins` labels.
    """

    alpha: float
    labels: int
    longest_wait: int
    share_above: float
    least: float
    most: float
    begins: int = 0

    @property
    def sentence(self) -> str:
        """The promise in words."""
        if not self.labels:
            return "No label was applied yet, so nothing is promised yet."
        if self.most >= 1:
            return (
                f"No promise yet (alpha = {self.alpha:g}): it begins after {self.begins:,} labels, "
                f"if none comes after more than {self.longest_wait:,} decided rows. Of the "
                f"{self.labels:,} rows whose labels were applied, the share "
                f"{self.share_above:.4g} is above its bound."
            )
        return (
            f"Of the {self.labels:,} rows whose labels were applied, at most the share "
            f"{self.most:.4g} can be above its bound (alpha = {self.alpha:g}), whatever the rows "
            f"are: no label came after more than {self.longest_wait:,} decided rows. It is "
            f"{self.share_above:.4g}. No single row has a promise of its own."
        )


class AdaptiveBounds:
    """Bounds on a stream: a loss above its bound lowers alpha_t, and any other raises it.

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
        stronger, and bounds less steady. None for ``min(0.005, 0.1 / n)``, where n are the rows of
        the first batch: the labels of one batch then move alpha_t by a tenth at most. If labels
        come many batches later, pass a smaller one.
    window
        The level at alpha_t is that of the newest so many labelled rows, those of D2 being the
        oldest. None for ``max(1000, 20 * n)``, as rows of one batch are often alike. 0 keeps the
        calibration of the `Locus`, and is the default unless that is marginal.

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
        step: float | None = None,
        window: int | None = None,
    ) -> None:
        self.locus = locus
        self.alpha = check_alpha(alpha)
        self.step = None if step is None else check_between(step, "step")
        self.window = _check_window(window, locus.calibration_)
        self.labels = self.decided = self.longest_wait = 0
        self.above: IntArray = np.zeros(self.alpha.size, dtype=np.int64)
        # Not in ascending order, since the first leave the window first.
        self._tails = np.random.default_rng(0).permutation(locus.calibration_.tails)
        self._waiting = WaitingRows()

    def __repr__(self) -> str:
        now = ", ".join(f"{alpha:.4g}" for alpha in self.alpha_now)
        first = self.promise()[0]
        return (
            f"AdaptiveBounds(alpha={value_text(self.alpha.tolist())}, now {cut(now, 60)}, "
            f"{self.labels:,} labels)\n  {cut(first.sentence, 180)}"
        )

    @property
    def alpha_now(self) -> FloatArray:
        """The alpha_t at which the next batch is decided, one for each alpha."""
        # From counts, so that rounding does not add up.
        alphas = np.atleast_1d(self.alpha)
        return alphas + (self.step or 0.0) * (self.labels * alphas - self.above)

    @property
    def waiting(self) -> dict[int, IntArray]:
        """Positions of the rows that wait for their labels, by ticket."""
        return {ticket: np.flatnonzero(batch.is_open) for ticket, batch in self._waiting}

    @property
    def calibration(self) -> Calibration:
        """What gives the level at alpha_t: the newest labelled rows, or the `Locus`."""
        if self.window == 0:
            return self.locus.calibration_
        return MarginalCalibration(np.sort(self._tails))

    def bound(self, X: Rows, *, groups: Any = None, weights: Any = None) -> Decision:
        """Bound the losses of a batch at the present alpha_t; its labels may come later.

        `groups` and `weights` are those of `Locus.loss_bound`.
        """
        X = self.locus._check_rows(X)
        now = self.alpha_now
        bounds, signals = self._bounds(X, now, Given(groups, weights))
        batch = Batch(self.decided, bounds, signals, np.ones(len(bounds), dtype=bool))
        ticket = self._waiting.add(batch)
        self.decided += len(bounds)
        self._settle(len(bounds))
        shown = bounds.copy() if self.alpha.ndim else bounds[:, 0].copy()
        return Decision(ticket, like_rows(X, shown, numbered("bound", self.alpha)), now)

    def _settle(self, n: int) -> None:
        """Fix what was left open, by the rows of the first batch."""
        if n and self.step is None:
            self.step = min(LARGEST_STEP, STEP_OF_BATCH / n)
        if n and self.window is None:
            self.window = max(SMALLEST_WINDOW, BATCHES_OF_WINDOW * n)

    def _bounds(self, X: Rows, now: FloatArray, given: Given) -> tuple[FloatArray, FloatArray]:
        """Bounds (n, m) at each alpha_t, and the signals of the rows."""
        inside = np.flatnonzero((now > 0) & (now < 1))
        scores = [Score.bound(float(now[j])) for j in inside]
        ends = np.where(now >= 1, -np.inf, self.locus.support_.high)
        bounds = np.repeat(ends[None, :], n_rows(X), axis=0)
        signals, calibration = [], self.calibration
        with unseen_said_once(self.locus.schema_, X):
            for block in self.locus.blocks(X, given):
                signals.append(block.signals)
                for laws in block.laws():
                    rows = np.arange(laws.rows.start, laws.rows.stop) + block.start
                    values = replace(laws, calibration=calibration).scores(scores)
                    bounds[np.ix_(rows, inside)] = values
        return bounds, np.vstack(signals) if signals else np.empty((0, 0))

    def update(self, ticket: int, X: Rows, y: ArrayLike, *, rows: ArrayLike | None = None) -> None:
        """Apply labels to rows of a batch: X are these rows again, y their true values.

        `rows` are their positions in the batch; None if it is the whole batch. Each row has its
        label once. Batches may have theirs in any order, and in parts.
        """
        self.update_losses(ticket, as_array(self.locus.losses(X, y)), rows=rows)

    def update_losses(self, ticket: int, z: ArrayLike, *, rows: ArrayLike | None = None) -> None:
        """Apply the realised losses of rows of a batch; see `update`."""
        batch, at = self._waiting.find(ticket), self._waiting.positions(ticket, rows)
        losses = self.locus.support_.check(check_losses(as_array(z), len(at), "z"))
        if not len(at):
            return
        if self.window:
            tails = self.locus.loss_model_.tails(batch.signals[at], losses)
            self._tails = np.append(self._tails, tails)[-self.window :]
        self.above = self.above + np.sum(losses[:, None] > batch.bounds[at], axis=0)
        self.labels += len(at)
        self.longest_wait = max(self.longest_wait, self.decided - batch.start - int(at.min()))
        self._waiting.close(ticket, at)

    def drop(self, ticket: int) -> None:
        """Forget the rows of a batch whose labels will never come; the promise is not for them."""
        self._waiting.drop(ticket)

    def promise(self) -> tuple[LongRun, ...]:
        """What holds of the labels applied so far, for each alpha."""
        pairs = zip(np.atleast_1d(self.alpha), self.above, strict=True)
        return tuple(self._long_run(float(alpha), int(above)) for alpha, above in pairs)

    def _long_run(self, alpha: float, above: int) -> LongRun:
        n, wait, step = self.labels, self.longest_wait, self.step
        if not n or step is None:
            return LongRun(alpha, 0, 0, 0.0, 0.0, 1.0)
        debt = alpha / step + (1.0 - alpha) * wait
        most, begins = alpha + debt / n, math.floor(debt / (1.0 - alpha)) + 1
        least = alpha - ((1.0 - alpha) / step + alpha * wait) / n
        return LongRun(alpha, n, wait, above / n, max(0.0, least), min(1.0, most), begins)

    def state(self) -> dict[str, Any]:
        """Everything but the `Locus`, in the types JSON has; see `Locus.resume`."""
        counts = (self.labels, self.decided, self.longest_wait, self._waiting.next_ticket)
        others = (self.above, self._tails, self._waiting.state())
        support = (self.locus.support_.low, self.locus.support_.high)
        values = (self.alpha, self.step, self.window, *counts, *others, support)
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
        except (LookupError, TypeError, OverflowError, MemoryError, RecursionError) as error:
            raise ValueError(
                "this is no state of a stream: a part of it is missing, or is not what state() "
                "gives there."
            ) from error

    @classmethod
    def _from(cls, locus: RowScores, state: Mapping[str, Any]) -> Self:
        own = (locus.support_.low, locus.support_.high)
        if tuple(map(float, state["support"])) != own:
            raise ValueError(
                f"the losses of this stream lie in {list(state['support'])}, and those of this "
                f"Locus in {list(own)}; its promise holds for one support only."
            )
        labels, decided, longest, following = (read_count(state[name]) for name in COUNTS)
        stream = cls(locus, state["alpha"], step=state["step"], window=state["window"])
        stream.labels, stream.decided, stream.longest_wait = labels, decided, longest
        stream.above = np.array([read_count(one) for one in state["above"]], dtype=np.int64)
        stream._tails = read_floats(state["tails"])
        _check_tails(stream._tails)
        stream._waiting.next_ticket = following
        stream._waiting.read(state["waiting"], stream.alpha.size)
        is_sound = (
            len(stream.above) == stream.alpha.size
            and bool(np.all(stream.above <= labels))
            and labels + stream._waiting.n <= decided
            and all(ticket < following for ticket in stream.waiting)
            and stream._waiting.end <= decided
            and (None not in (stream.step, stream.window) or decided == 0)
            and (0 < longest <= decided if labels else not longest)
            and (not labels or not stream.window or len(stream._tails) <= stream.window)
            # No sequence of rows leads elsewhere; both sides are rounded.
            and all(
                run.least - 1e-9 <= run.share_above <= run.most + 1e-9 for run in stream.promise()
            )
        )
        if not is_sound:
            raise ValueError("the counts of this state of a stream contradict each other.")
        return stream


def _check_tails(tails: FloatArray) -> None:
    try:
        check_tails(np.sort(tails))
    except ValueError as error:
        raise ValueError(f"this is no state of a stream: {error}.") from None


def _check_window(window: Any, calibration: Calibration) -> int | None:
    """Number of rows that levels come from; 0 where the calibration stays, None if left open."""
    is_marginal = isinstance(calibration, MarginalCalibration)
    if window is None:
        return None if is_marginal else 0
    n = check_count(window, "window", 0)
    if n and not is_marginal:
        raise ValueError(
            "window is for marginal calibration: newer rows would replace the levels of a "
            f"{type(calibration).__name__}. Pass window=0 to keep these."
        )
    return n
