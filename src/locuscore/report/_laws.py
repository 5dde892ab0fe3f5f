"""One pass over the laws of a batch: everything a report needs of them, block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore import Given, RowBlock, RowLaws, Score, Scorer
from locuscore._protocols import BoolArray, FloatArray, Rows
from locuscore._shared.checks import check_losses
from locuscore._shared.frames import as_array, n_rows
from locuscore._shared.labels import read_labels
from locuscore._shared.readable import shortened
from locuscore._shared.targets import as_targets
from locuscore.report._grid import ALPHAS

Count = Callable[[FloatArray, FloatArray], None]  # bounds at ALPHAS (n, 99), and losses


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a batch, and what the laws say of them."""

    source: RowBlock  # the rows, what g says of them, and their signals
    losses: FloatArray
    bounds: FloatArray  # (n, alphas of the scorer)
    score: FloatArray | None  # of the rule
    accepted: BoolArray | None  # by the rule
    labels: list[Any] | None  # of the groups that the rule tells apart
    tail: FloatArray  # P(Z > tau | x) at the tolerance where the reader starts
    above: FloatArray  # P(Z > z | x) at the realised loss
    at_least: FloatArray  # P(Z >= z | x), as the tails of D2 are, with their margin for rounding

    def __len__(self) -> int:
        return len(self.losses)


class Laws:
    """Evaluates the laws of a batch once, for all that a report counts and draws.

    `tau` is the tolerance where the reader starts; `count` is shown the bounds at all alphas of
    the explorer, and the losses, of each block.
    """

    def __init__(self, scorer: Scorer, tau: float = 0.0, count: Count | None = None) -> None:
        self.scorer, self.tau, self.count = scorer, tau, count
        # In ascending order, which the laws are quickest at.
        alphas = np.union1d(scorer.alphas, [] if count is None else ALPHAS)
        self.bounds = [Score.bound(float(alpha)) for alpha in alphas]
        self.own = np.searchsorted(alphas, scorer.alphas)
        self.explored = np.searchsorted(alphas, ALPHAS)
        self.is_explored_alone = len(alphas) == len(ALPHAS)

    def blocks(
        self,
        X: Rows,
        y: ArrayLike | None,
        losses: ArrayLike | None,
        groups: Any = None,
        weights: Any = None,
    ) -> Iterator[Block]:
        """Go through a batch; g is asked once per row.

        `groups` has one label per row, for a calibration or a rule that asks for them, and
        `weights` one number per row, for a calibration that does.
        """
        locus, n = self.scorer.locus, n_rows(X)
        if y is not None and losses is not None:
            raise ValueError("a report takes the true values y or the losses, not both.")
        known = None if losses is None else check_losses(as_array(losses), n, "losses")
        targets = check_labels(self.scorer, y, n) if known is None else np.empty(0)
        rule = self.scorer.rule
        found = None if rule is None else rule.labels(X, groups)
        labels = None if found is None else read_labels(found, n)
        given = Given(groups if locus.calibration_.asks == "groups" else None, weights)
        for block in locus.blocks(X, given):
            rows = slice(block.start, block.start + len(block))
            z = block.losses(targets[rows]) if known is None else locus.support_.check(known[rows])
            yield self._evaluated(block, z, None if labels is None else labels[rows])

    def _evaluated(self, source: RowBlock, z: FloatArray, labels: list[Any] | None) -> Block:
        rule = self.scorer.rule
        bounds, tails = np.empty((len(z), len(self.own))), np.empty((len(z), 3))
        score = None if rule is None else np.empty(len(z))
        for laws in source.laws():
            at, found = laws.rows, laws.scores(self.bounds)
            bounds[at] = found[:, self.own]
            tails[at] = _tails(laws, z[at], self.tau)
            if rule is not None and score is not None:
                score[at] = self._rule_score(rule.score, found, laws)
            if self.count is not None:
                self.count(found if self.is_explored_alone else found[:, self.explored], z[at])
        accepted = None
        if rule is not None and score is not None:
            accepted = rule.accepts(score, rule.score, labels)
        return Block(source, z, bounds, score, accepted, labels, *tails.T)

    def _rule_score(self, score: Score, bounds: FloatArray, laws: RowLaws) -> FloatArray:
        """Score of the rule; where it is one of the bounds it is known already."""
        if score in self.bounds:
            return bounds[:, self.bounds.index(score)]
        return laws.scores([score])[:, 0]


def _tails(laws: RowLaws, z: FloatArray, tau: float) -> FloatArray:
    return np.column_stack([laws.law.sf(tau), laws.law.sf(z), laws.law.tail(z)])


def check_labels(scorer: Scorer, y: ArrayLike | None, n: int) -> np.ndarray:
    """Return y as an array; raise unless losses can be computed from it."""
    if scorer.locus.predictor_ is None:
        raise ValueError("this scorer has no predictor, so pass the losses of the rows: losses=z.")
    if y is None:
        raise ValueError("a report needs the true values y of its rows, or their losses.")
    targets = as_targets(y)
    if targets.ndim == 0 or len(targets) != n:
        raise ValueError(f"y must have one entry per row; X has {n}, y has shape {targets.shape}.")
    return targets


def feature_names(scorer: Scorer) -> list[str]:
    """Names of the columns of X; those of an array are x0, x1, and so on."""
    is_array = scorer.schema.kind == "array"
    return [f"x{name}" if is_array else shortened(str(name)) for name in scorer.schema.names]


def signal_names(scorer: Scorer, width: int) -> list[str]:
    """A name for each of so many signals; those of the second opinion have one in common."""
    locus = scorer.locus
    return locus.signals_.names(locus.predictor_, feature_names(scorer), width)


def spread_column(scorer: Scorer, width: int) -> tuple[str, int] | None:
    """What the predictor's own doubt is called, and which of the signals it is; None if none is."""
    signals, names = scorer.locus.signals_, signal_names(scorer, width)
    if signals.output_encoder is None:
        return None
    x = [] if signals.encoder is None else signals.encoder.names(feature_names(scorer))
    wanted = ("spread of the predictor", "entropy of the predictor")
    own = range(len(x), len(names))
    found = next(((name, j) for name in wanted for j in own if names[j].startswith(name)), None)
    if found is None:
        return None
    return found[0], int(np.flatnonzero(signals.players(width) == found[1])[0])
