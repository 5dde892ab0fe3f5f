"""A second opinion on g: what the labels of D1 teach beyond it, as columns of the signals.

A loss throws away on which side of g the target lies. Boosted trees that see x and all that g says
learn it back from D1: the signed error of a number, the probabilities of classes, the size of a
loss. A row of D1 is told by a model that was learned without it, since a model flatters the rows it
was fitted on; a new row is told by a model of all of D1. All of it is a function of D1, so no
guarantee changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.losses import Loss
from locuscore._inputs.opinion_kinds import (
    MOST_CLASSES,
    ClassOpinion,
    ErrorOpinion,
    Label,
    OpinionPart,
    SizeOpinion,
    unit_of,
)
from locuscore._inputs.opinion_models import folds_of
from locuscore._inputs.outputs import Outputs, cost_classes, loss_of_pairs, said_by_predictor
from locuscore._inputs.predictor import classes_of, is_classifier
from locuscore._laws.class_law import ClassLaw
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import check_numeric, without_single_axis
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore._shared.threads import few_threads

FEWEST_ROWS = 50  # with fewer, trees with leaves of 20 rows learn nothing
FEWEST_OF_CLASS = 10
SMALLEST_ATOM = 0.02  # share of the rows; fewer equal losses are chance, or rounding
SMALLEST_PROBABILITY = 1e-3  # of g, to have a logarithm


@dataclass(frozen=True, eq=False)
class Labelled:
    """What is known of the rows of D1: their losses, and their targets unless they are lost."""

    loss: Loss
    z: FloatArray
    y: np.ndarray | None = None
    errors: FloatArray | None = None  # (y - g(x)) / unit, where both are numbers
    unit: float = 1.0
    clusters: IntArray | None = None  # codes, where rows come in clusters

    @classmethod
    def of(cls, loss: Loss, outputs: Outputs, z: FloatArray, y: np.ndarray | None) -> Self:
        """Gather what is known of rows; without y there are no errors either."""
        targets = None if y is None else without_single_axis(y)
        errors = None if targets is None else _signed_errors(loss, outputs, targets)
        if errors is None:
            return cls(loss, z, targets)
        unit = unit_of(errors)
        return cls(loss, z, targets, errors / unit, unit)

    def signed(self, column: int | None) -> SignedErrors | None:
        """The errors for an engine; None unless the opinion expects some that make the loss.

        Expected plus unexpected errors never add up to a loss that many rows share, such as none at
        all, so where there is such a loss they would deny it.
        """
        if self.errors is None or column is None or self.loss.of_error is None:
            return None
        most_frequent = int(np.unique(self.z, return_counts=True)[1].max())
        if most_frequent > max(SMALLEST_ATOM * len(self.z), 2):
            return None
        return SignedErrors(self.loss.of_error.in_unit(self.unit), self.errors, column)


@dataclass(frozen=True, eq=False)
class Opinion:
    """A second opinion, and how it is shown what g says.

    It sees the other signals and all that g says; `output_encoder` is for what g says, where the
    other signals lack it.
    """

    ARCHIVE = Kept(
        "Opinion",
        fields=("part", "output_encoder"),
        holds=(ErrorOpinion, SizeOpinion, ClassOpinion),
    )

    part: OpinionPart
    output_encoder: Encoder | None = None

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the opinion that an archive holds, if it is one."""
        found = cls(**parts)
        is_opinion = isinstance(found.part, OpinionPart)
        if not is_opinion or not isinstance(found.output_encoder, Encoder | None):
            raise ValueError("a second opinion is of an unknown kind")
        if not isinstance(found.part.unit, float) or not 0 < found.part.unit < np.inf:
            raise ValueError("a second opinion has a unit that is no positive number")
        return found

    def __call__(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The opinion's columns for new rows, given their other signals."""
        return self.part.columns(_inputs(S, outputs, self.output_encoder), outputs)

    @property
    def error_column(self) -> int | None:
        """Position of the expected error, counted from the end; None where there is none."""
        return -self.part.WIDTH if isinstance(self.part, ErrorOpinion) else None

    @property
    def class_law(self) -> ClassLaw | None:
        """What it says of the loss, if it is about the class."""
        return self.part.law if isinstance(self.part, ClassOpinion) else None


def fit_opinion(
    S: FloatArray,
    outputs: Outputs,
    labels: Labelled,
    output_encoder: Encoder | None,
    seed: int,
) -> tuple[Opinion | None, FloatArray]:
    """Learn a second opinion on D1; returns it with its out-of-fold columns for D1.

    `S` are the other signals. An opinion that does not help is none, and has no column.
    """
    part = None
    if len(S) >= FEWEST_ROWS and np.ptp(labels.z):
        seen, (learn, target) = _inputs(S, outputs, output_encoder), _lesson(outputs, labels)
        fold_seed, own_seed = spawn_seeds(seed, 2)
        folds = folds_of(len(S), fold_seed, labels.clusters)
        with few_threads(len(S)):  # threads would wait for each other at every round
            part, columns = learn(seen, outputs, target, folds, own_seed)
    if part is None:
        return None, np.empty((len(S), 0))
    if isinstance(part, ErrorOpinion):
        part = replace(part, unit=labels.unit)
    return Opinion(part, output_encoder), columns


def _inputs(S: FloatArray, outputs: Outputs, encoder: Encoder | None) -> FloatArray:
    """What an opinion sees: the other signals, and what g says beyond them."""
    said = [] if encoder is None else [said_by_predictor(outputs, encoder)]
    # Logarithms suit the linear model, and are the same to trees.
    logs = [np.log(np.maximum(p, SMALLEST_PROBABILITY)) for p in outputs.probabilities]
    return np.hstack([S, *said, *logs])


Learn = Callable[..., tuple[OpinionPart | None, FloatArray]]


def _lesson(outputs: Outputs, labels: Labelled) -> tuple[Learn, np.ndarray]:
    """What can be learned: the errors of numbers, classes, or else the size of the loss."""
    if labels.errors is not None:
        return ErrorOpinion.learned, labels.errors
    classes = None if outputs.predictor is None else _classes(outputs, labels)
    return (SizeOpinion.learned, labels.z) if classes is None else classes


def _signed_errors(loss: Loss, outputs: Outputs, y: np.ndarray) -> FloatArray | None:
    """``y - g(x)`` of one number per row; None where it means nothing."""
    model = getattr(outputs.predictor, "__self__", outputs.predictor)
    is_own = loss.reads == "anything" and not is_classifier(model)
    if outputs.predictor is None or not (loss.reads == "numbers" or is_own):
        return None
    said = outputs.predictions
    if y.ndim != 1 or said.ndim != 1:
        return None
    try:
        targets, answers = check_numeric(y, "y"), check_numeric(said, "g")
    except ValueError:
        return None  # labels of a loss of the caller's own
    with np.errstate(over="ignore", invalid="ignore"):
        errors = targets - answers
    return errors if np.isfinite(errors).all() else None


def _classes(outputs: Outputs, labels: Labelled) -> tuple[Learn, np.ndarray] | None:
    """The class of each row, and what each answer costs; None if there are too many classes."""
    y, loss = labels.y, labels.loss
    of_probabilities = loss.reads == "probabilities"
    if loss.reads in ("values", "vectors"):
        return None
    if y is None or y.ndim != 1 or not (of_probabilities or outputs.predictions.ndim == 1):
        return None
    known = _known_labels(outputs, loss, y)
    if not 2 <= len(known) <= MOST_CLASSES:
        return None
    position = {label: code for code, label in enumerate(known)}
    codes = np.array([position[label] for label in y.tolist()], dtype=np.int64)
    try:
        costs = None if of_probabilities else loss_of_pairs(loss, outputs.predictor, known)
    except Exception:
        if loss.reads != "anything":
            raise
        return None  # a function of the caller's own that compares no single labels
    unit = 1.0 if costs is None else unit_of(costs)
    scaled = None if costs is None else costs / unit
    opinion = ClassOpinion(known, scaled, loss.name if of_probabilities else None, unit=unit)
    # Each model must see two classes: the second most frequent one has rows in every part of D1.
    n_second = np.sort(np.bincount(codes))[-2:][0] if np.ptp(codes) else 0
    return (opinion.learned, codes) if n_second >= FEWEST_OF_CLASS else None


def _known_labels(outputs: Outputs, loss: Loss, y: np.ndarray) -> tuple[Any, ...]:
    """The labels that may occur: those the loss or g has, in their order, then others of D1."""
    own = classes_of(outputs.predictor)
    if loss.reads == "codes":
        own = cost_classes(loss, outputs.predictor)
    first = [] if own is None else np.asarray(own).tolist()
    if loss.reads in ("codes", "probabilities"):  # without names, classes are numbered
        n = loss.n_classes or outputs.class_probabilities().shape[1]
        return tuple(first or range(n))
    seen = [*y.tolist(), *outputs.predictions.tolist()]
    if not all(isinstance(label, Label) for label in (*first, *seen)):
        return ()
    return (*first, *sorted(set(seen) - set(first), key=_by_type_then_value))


def _by_type_then_value(label: Any) -> tuple[str, Any]:
    return type(label).__name__, label
