"""A second opinion on g: what the labels of D1 teach beyond it, as columns of the signals.

A loss throws away on which side of g the target lies. Boosted trees that see x and all that g says
learn it back from D1: the signed error of a number, the probabilities of classes, the size of a
loss. Rows of D1 get out-of-fold values, since a model flatters the rows it was fitted on; new rows
get the values of models of all of D1. All of it is a function of D1, so no guarantee changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import KFold

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.losses import Loss, resolve_loss
from locuscore._inputs.outputs import Outputs, loss_of_pairs, said_by_predictor
from locuscore._inputs.predictor import classes_of, is_classifier
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.boosting import BoostedClasses, BoostedTrees
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds

N_FOLDS = 5
MOST_PARTS = 2
FEWEST_ROWS = 50  # with fewer, trees with leaves of 20 rows learn nothing
MOST_CLASSES = 30  # each needs trees of its own
SMALLEST_SIZE = 0.05  # of the mean loss: smaller ones count as equally small

TREES = {"max_iter": 100, "max_leaf_nodes": 15, "early_stopping": False}


@dataclass(frozen=True, eq=False)
class Labelled:
    """What is known of the rows of D1: their losses, and their targets unless they are lost."""

    loss: Loss
    z: FloatArray
    y: np.ndarray | None = None
    errors: FloatArray | None = None  # y - g(x), where both are numbers

    @classmethod
    def of(cls, loss: Loss, outputs: Outputs, z: FloatArray, y: np.ndarray | None) -> Self:
        """Gather what is known of rows; without y there are no errors either."""
        return cls(loss, z, y, None if y is None else _signed_errors(loss, outputs, y))

    def signed(self, column: int | None) -> SignedErrors | None:
        """The errors for an engine; None unless the opinion expects some that make the loss."""
        if self.errors is None or column is None or self.loss.of_error is None:
            return None
        return SignedErrors(self.loss.of_error, self.errors, column)


@dataclass(frozen=True, eq=False)
class ErrorOpinion:
    """Expects the signed error ``y - g(x)`` of a number."""

    ARCHIVE = Kept("ErrorOpinion", fields=("model",))
    NAMES: ClassVar = ("correction by the second opinion", "size of that correction")

    model: Any

    @classmethod
    def learned(cls, S: FloatArray, error: FloatArray, seed: int) -> Self:
        """Learn the errors of rows."""
        return cls(BoostedTrees(**TREES, random_state=seed).fit(S, error))

    @staticmethod
    def helps(error: FloatArray, held_out: FloatArray) -> bool:
        """Whether the correction makes errors smaller where it was not learned."""
        return float(np.sum((error - held_out[:, 0]) ** 2)) < float(np.sum(error**2))

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected error, and its size."""
        error = self.model.predict(S)
        return np.column_stack([error, np.abs(error)])


@dataclass(frozen=True, eq=False)
class SizeOpinion:
    """Expects the size of the loss: boosted logarithms, so that a few large ones do not rule."""

    ARCHIVE = Kept("SizeOpinion", fields=("model",), single=("unit",))
    NAMES: ClassVar = ("loss expected by the second opinion",)

    model: Any
    unit: float

    @classmethod
    def learned(cls, S: FloatArray, z: FloatArray, seed: int) -> Self:
        """Learn the sizes of the losses of rows."""
        unit = float(np.mean(np.abs(z))) or 1.0
        logs = np.log(np.abs(z) / unit + SMALLEST_SIZE)
        return cls(BoostedTrees(**TREES, random_state=seed).fit(S, logs), unit)

    @staticmethod
    def helps(z: FloatArray, held_out: FloatArray) -> bool:
        """Whether large losses are expected where they are."""
        return float(np.corrcoef(rankdata(z), held_out[:, 0])[0, 1]) > 0

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected size, in units of the loss."""
        return self.unit * (np.exp(self.model.predict(S)) - SMALLEST_SIZE)[:, None]


@dataclass(frozen=True, eq=False)
class ClassOpinion:
    """Expects the class: how likely that of g is, and what its answer costs on average.

    `labels` are the classes. A loss of labels is the table `costs`, (true, predicted), while
    a loss of probabilities is known by its name.
    """

    ARCHIVE = Kept("ClassOpinion", fields=("model", "labels", "costs"), single=("loss",))
    NAMES: ClassVar = (
        "probability of the predicted class, second opinion",
        "loss expected by the second opinion",
    )

    model: Any
    labels: tuple[Any, ...]
    costs: FloatArray | None
    loss: str | None = None

    @classmethod
    def learned(cls, S: FloatArray, codes: IntArray, seed: int, *, like: "ClassOpinion") -> Self:
        """Learn the classes of rows; `like` has all but the model."""
        model = BoostedClasses(**TREES, random_state=seed).fit(S, codes)
        return cls(model, like.labels, like.costs, like.loss)

    @staticmethod
    def helps(codes: IntArray, held_out: FloatArray) -> bool:
        """The classes themselves are always worth knowing."""
        return True

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The probability of g's class, and the expected loss."""
        p = np.zeros((len(S), len(self.labels)))
        p[:, self.model.classes_] = self.model.predict_proba(S)
        said = predicted_codes(outputs, self.labels)
        rows = np.arange(len(S))
        # An answer that did not occur on D1 is given no chance, and the largest cost.
        agrees = np.where(said < 0, 0.0, p[rows, said])
        if self.costs is not None:
            of_answer = np.where(said < 0, self.costs.max(axis=1)[:, None], self.costs[:, said]).T
        else:
            of_answer = self._of_probabilities(outputs)
        return np.column_stack([agrees, (p * of_answer).sum(axis=1)])

    def _of_probabilities(self, outputs: Outputs) -> FloatArray:
        """Loss of g's probabilities for each class."""
        assert self.loss is not None
        loss, g = resolve_loss(self.loss), outputs.class_probabilities()
        every = range(len(self.labels))
        return np.column_stack([loss(np.full(len(g), code), g) for code in every])


def predicted_codes(outputs: Outputs, labels: Sequence[Any]) -> IntArray:
    """Positions of g's answers among labels; -1 where they are not among them."""
    position = {label: code for code, label in enumerate(labels)}
    answers = outputs.predictions
    if answers.ndim == 2:  # a function that gives probabilities
        return answers.argmax(axis=1).astype(np.int64)
    return np.array([position.get(answer, -1) for answer in answers.tolist()], dtype=np.int64)


OpinionPart = ErrorOpinion | SizeOpinion | ClassOpinion


@dataclass(frozen=True, eq=False)
class Lesson:
    """What one part learns: its class, a target for each row of D1, and what else it needs."""

    kind: Any
    target: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)

    def learned(self, S: FloatArray, rows: IntArray | slice, seed: int) -> OpinionPart:
        """The part, learned from some rows of D1."""
        return self.kind.learned(S[rows], self.target[rows], seed, **self.options)

    def held_out(self, S: FloatArray, outputs: Outputs, seeds: tuple[int, int]) -> FloatArray:
        """The part's columns for all rows of D1, each by a part that was learned without it."""
        fold_seed, seed = seeds
        found = np.empty((len(S), len(self.kind.NAMES)))
        for kept, out in KFold(N_FOLDS, shuffle=True, random_state=fold_seed).split(S):
            found[out] = self.learned(S, kept, seed).columns(S[out], outputs.take(out))
        return found


@dataclass(frozen=True, eq=False)
class Opinion:
    """The parts of a second opinion that help.

    It sees the other signals and all that g says; `output_encoder` is for what g says, where the
    other signals lack it.
    """

    ARCHIVE = Kept(
        "Opinion",
        fields=("parts", "output_encoder"),
        holds=(ErrorOpinion, SizeOpinion, ClassOpinion),
    )

    parts: tuple[OpinionPart, ...]
    output_encoder: Encoder | None = None

    def __call__(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The opinion's columns for new rows, given their other signals."""
        seen = _inputs(S, outputs, self.output_encoder)
        return np.hstack([part.columns(seen, outputs) for part in self.parts])

    @property
    def names(self) -> list[str]:
        """A name for each column."""
        return [name for part in self.parts for name in part.NAMES]

    @property
    def error_column(self) -> int | None:
        """Position of the expected error, counted from the end; None where there is none."""
        is_first = isinstance(self.parts[0], ErrorOpinion)
        return -len(self.names) if is_first else None


def fit_opinion(
    S: FloatArray,
    outputs: Outputs,
    labels: Labelled,
    output_encoder: Encoder | None,
    seed: int,
) -> tuple[Opinion | None, FloatArray]:
    """Learn a second opinion on D1; returns it with its out-of-fold columns for D1.

    `S` are the other signals. Without any part that helps there is no opinion and no column.
    """
    seen, parts, columns = _inputs(S, outputs, output_encoder), [], [np.empty((len(S), 0))]
    if len(S) >= FEWEST_ROWS and np.ptp(labels.z):
        fold_seed, *seeds = spawn_seeds(seed, 1 + MOST_PARTS)
        for lesson, own_seed in zip(_lessons(outputs, labels), seeds, strict=False):
            held_out = lesson.held_out(seen, outputs, (fold_seed, own_seed))
            if lesson.kind.helps(lesson.target, held_out):
                parts.append(lesson.learned(seen, slice(None), own_seed))
                columns.append(held_out)
    opinion = Opinion(tuple(parts), output_encoder) if parts else None
    return opinion, np.hstack(columns)


def _inputs(S: FloatArray, outputs: Outputs, encoder: Encoder | None) -> FloatArray:
    """What an opinion sees: the other signals, and what g says beyond them."""
    said = [] if encoder is None else [said_by_predictor(outputs, encoder)]
    return np.hstack([S, *said, *outputs.probabilities])


def _lessons(outputs: Outputs, labels: Labelled) -> list[Lesson]:
    """What can be learned: errors of numbers and the size of their loss, or classes."""
    size = [Lesson(SizeOpinion, labels.z)]
    if labels.errors is not None:
        return [Lesson(ErrorOpinion, labels.errors), *size]
    classes = None if outputs.predictor is None else _classes(outputs, labels)
    return size if classes is None else [classes]


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
        errors = y.astype(np.float64) - said.astype(np.float64)
    except (TypeError, ValueError):
        return None  # labels of a loss of the caller's own
    return errors if np.isfinite(errors).all() else None


def _classes(outputs: Outputs, labels: Labelled) -> Lesson | None:
    """The class of each row, and what each answer costs; None if there are too many classes."""
    y, loss = labels.y, labels.loss
    if y is None or y.ndim != 1:
        return None
    of_probabilities = loss.reads == "probabilities"
    known = _known_labels(outputs, y, of_probabilities)
    if not 2 <= len(known) <= MOST_CLASSES:
        return None
    position = {label: code for code, label in enumerate(known)}
    codes = np.array([position[label] for label in y.tolist()], dtype=np.int64)
    if of_probabilities:
        like = ClassOpinion(None, known, None, loss.name)
    elif outputs.predictions.ndim == 1:
        like = ClassOpinion(None, known, loss_of_pairs(loss, outputs.predictor, known))
    else:
        return None
    return Lesson(ClassOpinion, codes, {"like": like}) if np.ptp(codes) else None


def _known_labels(outputs: Outputs, y: np.ndarray, of_probabilities: bool) -> tuple[Any, ...]:
    """The labels that may occur: g's own classes in their order, then others seen on D1."""
    if of_probabilities and classes_of(outputs.predictor) is None:  # classes are numbered
        return tuple(range(outputs.class_probabilities().shape[1]))
    own = classes_of(outputs.predictor)
    first = [] if own is None else np.asarray(own).tolist()
    said = outputs.predictions.tolist() if outputs.predictions.ndim == 1 else []
    others = sorted({*y.tolist(), *said} - set(first), key=_by_type_then_value)
    return (*first, *others)


def _by_type_then_value(label: Any) -> tuple[str, Any]:
    return type(label).__name__, label
