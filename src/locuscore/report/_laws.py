"""One pass over the laws of a batch: everything a report needs of them, block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.frames import as_array, n_rows, take_rows
from locuscore._inputs.losses import check_support
from locuscore._inputs.predictor import check_predictor, has_members, realised_losses
from locuscore._inputs.signals import Listener
from locuscore._laws.calibration import calibrated_level
from locuscore._laws.distribution import LossDistribution
from locuscore._laws.scores import score_function
from locuscore._protocols import FloatArray, Rows
from locuscore._scorer import Scorer
from locuscore._shared.checks import check_losses
from locuscore.report._grid import ALPHAS
from locuscore.report._words import shortened

Count = Callable[[FloatArray, FloatArray], None]  # bounds at ALPHAS (n, 99), and losses


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a batch, and what the laws say of them."""

    start: int  # position of the first row in its batch
    rows: Rows
    signals: FloatArray
    predictions: FloatArray | None  # where they are one number per row
    losses: FloatArray
    bounds: FloatArray  # (n, alphas of the scorer)
    score: FloatArray | None  # of the rule
    tail: FloatArray  # P(Z > tau | x) at the tolerance where the reader starts
    above: FloatArray  # P(Z > z | x) at the realised loss
    at_least: FloatArray  # P(Z >= z | x)

    def __len__(self) -> int:
        return len(self.losses)


class Laws:
    """Evaluates the laws of a batch once, for all that a report counts and draws.

    `tau` is the tolerance where the reader starts; `count` is shown the bounds at all alphas of
    the explorer, and the losses, of each block.
    """

    def __init__(self, scorer: Scorer, tau: float = 0.0, count: Count | None = None) -> None:
        self.scorer, self.tau, self.count = scorer, tau, count
        tails, rule = scorer.locus.tails_, scorer.rule
        # In ascending order, which the laws are quickest at.
        alphas = np.union1d(scorer.alphas, [] if count is None else ALPHAS)
        self.levels = np.array([[calibrated_level(tails, alpha) for alpha in alphas]])
        self.own = np.searchsorted(alphas, scorer.alphas)
        self.explored = np.searchsorted(alphas, ALPHAS)
        self.score: Callable[[LossDistribution], FloatArray] | None = None
        self.score_column: int | None = None  # among the bounds
        at = None if rule is None else rule.score.alpha
        if at is not None and at in scorer.alphas:
            self.score_column = list(scorer.alphas).index(at)
        elif rule is not None:
            self.score = score_function([rule.score], tails, scorer.locus.support_.high)

    def blocks(self, X: Rows, y: ArrayLike | None, losses: ArrayLike | None) -> Iterator[Block]:
        """Go through a batch; g is asked once per row where its output stands among the signals."""
        locus, n = self.scorer.locus, n_rows(X)
        if y is not None and losses is not None:
            raise ValueError("a report takes the true values y or the losses, not both.")
        known = None if losses is None else check_losses(as_array(losses), n, "losses")
        targets = check_labels(self.scorer, y, n) if known is None else np.empty(0)
        for start, S in locus.signals_.blocks(X):
            rows = slice(start, start + len(S))
            part, said = take_rows(X, rows), locus.signals_.predictions(S, locus.n_features_in_)
            if known is None:
                z = realised_losses(locus.loss_, locus.predictor_, part, targets[rows], said)
            else:
                z = known[rows]
            yield self._block(start, part, S, said, check_support(z, locus.support_))

    def _block(
        self, start: int, rows: Rows, S: FloatArray, said: FloatArray | None, z: FloatArray
    ) -> Block:
        bounds, score = np.empty((len(S), len(self.own))), np.empty(len(S))
        tails = np.empty((len(S), 3))
        for at, dist in self.scorer.locus.loss_model_.blocks(S):
            found = dist.isf(self.levels)
            bounds[at] = found[:, self.own]
            tails[at] = _tails(dist, z[at], self.tau)
            if self.score is not None:
                score[at] = self.score(dist)[:, 0]
            if self.count is not None:
                is_all = found.shape[1] == len(ALPHAS)
                self.count(found if is_all else found[:, self.explored], z[at])
        if self.score_column is not None:
            score = bounds[:, self.score_column]
        thresholded = None if self.scorer.rule is None else score
        return Block(start, rows, S, said, z, bounds, thresholded, *tails.T)


def _tails(dist: LossDistribution, z: FloatArray, tau: float) -> FloatArray:
    above, at_least = dist.sf(z), dist.tail(z)
    # The margin for rounding in `tail` may put it below where the law has no atom.
    return np.column_stack([dist.sf(tau), above, np.maximum(above, at_least)])


def check_labels(scorer: Scorer, y: ArrayLike | None, n: int) -> np.ndarray:
    """Return y as an array; raise unless losses can be computed from it."""
    if scorer.locus.predictor_ is None:
        raise ValueError("this scorer has no predictor, so pass the losses of the rows: losses=z.")
    check_predictor(scorer.locus.predictor_)
    if y is None:
        raise ValueError("a report needs the true values y of its rows, or their losses.")
    targets = as_array(y)
    if targets.ndim == 0 or len(targets) != n:
        raise ValueError(f"y must have one entry per row; X has {n}, y has shape {targets.shape}.")
    return targets


def feature_names(scorer: Scorer) -> list[str]:
    """Names of the columns of X; those of an array are x0, x1, and so on."""
    is_array = scorer.schema.kind == "array"
    return [f"x{name}" if is_array else shortened(str(name)) for name in scorer.schema.names]


def has_features(scorer: Scorer) -> bool:
    """Whether the signals begin with the columns of X; `signals` as a function need not."""
    return isinstance(getattr(scorer.locus.signals_.embed, "__self__", None), Encoder)


def signal_names(scorer: Scorer, width: int) -> list[str]:
    """A name for each of so many signals."""
    if not has_features(scorer):
        return [f"signal {j}" for j in range(width)]
    features = feature_names(scorer)
    if not isinstance(scorer.locus.signals_.listen, Listener):
        return features
    return features + _said(scorer.locus.predictor_, width - len(features))


def _said(predictor: object, width: int) -> list[str]:
    """Names of what g says of itself, see `own_signals`."""
    if hasattr(predictor, "predict_proba"):
        parts = ["predicted class", "margin between classes", "entropy of the predictor"]
        n = width // len(parts)
        return [part if n == 1 else f"{part} {j}" for j in range(n) for part in parts]
    parts = ["prediction", *(["spread of the predictor"] if has_members(predictor) else [])]
    n = width // len(parts)
    return [part if n == 1 else f"{part} {j}" for part in parts for j in range(n)]


def spread_column(scorer: Scorer, names: list[str]) -> tuple[str, int] | None:
    """What the predictor's own doubt is called, and which signal it is; None if there is none."""
    if not isinstance(scorer.locus.signals_.listen, Listener):
        return None
    own = range(scorer.locus.n_features_in_, len(names))
    for wanted in ("spread of the predictor", "entropy of the predictor"):
        found = [j for j in own if names[j].startswith(wanted)]
        if found:
            return wanted, found[0]
    return None
