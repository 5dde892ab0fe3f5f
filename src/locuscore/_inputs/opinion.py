"""A second opinion on g: what the labels of D1 teach beyond it, as columns of the signals.

A loss throws away on which side of g the target lies. Boosted trees that see x and all that g says
learn it back from D1: the signed error of a number, the probabilities of classes, the size of a
loss. There are five models, each learned without a fifth of D1. A row of D1 is told by the one that
has not seen it, since a model flatters the rows it was fitted on; a new row is told the mean of all
five. All of it is a function of D1, so no guarantee changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.losses import Loss, resolve_loss
from locuscore._inputs.opinion_models import (
    boosted_classes,
    boosted_numbers,
    folds_of,
    held_out,
    linear_classes,
    log_loss,
    spread_out,
)
from locuscore._inputs.outputs import Outputs, cost_classes, loss_of_pairs, said_by_predictor
from locuscore._inputs.predictor import classes_of, is_classifier
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import check_numeric, one_per_row, without_single_axis
from locuscore._shared.kept import Kept
from locuscore._shared.readable import readable, readable_pair, shortened
from locuscore._shared.seeds import spawn_seeds

FEWEST_ROWS = 50  # with fewer, trees with leaves of 20 rows learn nothing
FEWEST_OF_CLASS = 10
MOST_CLASSES = 100
SMALLEST_PROBABILITY = 1e-3  # of g, to have a logarithm
WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)  # of boosted trees beside a linear model
MOST_LETTERS = 60  # of the name of a class
LEAST_GAIN = 0.05  # of the squared errors; on less, benchmarks/panel finds noise to outweigh it
SMALLEST_SIZE = 0.05  # of the mean loss: smaller ones count as equally small
LARGEST_SIGNAL = 1e100  # a linear model squares them
Label = str | bytes | int | float | None  # what an archive keeps; others are no classes


@dataclass(frozen=True, eq=False)
class Labelled:
    """What is known of the rows of D1: their losses, and their targets unless they are lost."""

    loss: Loss
    z: FloatArray
    y: np.ndarray | None = None
    errors: FloatArray | None = None  # (y - g(x)) / unit, where both are numbers
    unit: float = 1.0

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
        """The errors for an engine; None unless the opinion expects some that make the loss."""
        if self.errors is None or column is None or self.loss.of_error is None:
            return None
        return SignedErrors(self.loss.of_error.in_unit(self.unit), self.errors, column)


@dataclass(frozen=True, eq=False)
class ErrorOpinion:
    """Expects the signed error ``y - g(x)`` of a number, in a `unit` of the size of errors."""

    ARCHIVE = Kept("ErrorOpinion", fields=("models",), single=("unit",))
    WIDTH: ClassVar = 2
    ABOUT: ClassVar = "the errors"

    models: Sequence[Any]
    unit: float = 1.0

    @classmethod
    def learned(
        cls, S: FloatArray, outputs: Outputs, errors: FloatArray, seeds: tuple[int, int]
    ) -> tuple[Self | None, FloatArray]:
        """Learn the errors of D1; None if corrections remove little of them on rows left out."""
        fold_seed, seed = seeds
        folds = folds_of(len(S), fold_seed)
        models = boosted_numbers(S, errors, folds, seed)
        expected = held_out(models, S, folds, _numbers, 1)[:, 0]
        helps = np.sum((errors - expected) ** 2) <= (1 - LEAST_GAIN) * np.sum(errors**2)
        return (cls(models) if helps else None), cls._columns(expected)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected error, and its size."""
        return self._columns(_mean_of(self.models, S))

    def words(self, columns: FloatArray, outputs: Outputs) -> list[str]:
        """What it expects of each row, beside what g says."""
        said = [None] * len(columns) if outputs.predictor is None else outputs.mean_of_members
        errors = self.unit * columns[:, 0]
        return [_against(*pair) for pair in zip(errors.tolist(), said, strict=True)]

    @staticmethod
    def _columns(error: FloatArray) -> FloatArray:
        return np.column_stack([error, np.abs(error)])


def _against(error: float, answer: Any) -> str:
    """What an opinion expects, and the answer of g; the error alone if that is no number."""
    try:
        said = float(answer)
    except (TypeError, ValueError):
        said = np.nan
    if not np.isfinite(said):
        return f"a second model expects an error of {readable(error)}"
    expected, g = readable_pair(said + error, said)
    if expected == g:
        return f"a second model expects {readable(said)}, as g does"
    return f"a second model expects {expected}, g says {g}"


def _expects_loss(size: float) -> str:
    return f"expects a loss of {readable(max(size, 0.0))}"


@dataclass(frozen=True, eq=False)
class SizeOpinion:
    """Expects the size of the loss: boosted logarithms, so that a few large ones do not rule.

    It is measured in mean losses, `unit`, so that none is too large for an engine.
    """

    ARCHIVE = Kept("SizeOpinion", fields=("models",), single=("unit",))
    WIDTH: ClassVar = 1
    ABOUT: ClassVar = "the size of the loss"

    models: Sequence[Any]
    unit: float = 1.0

    @classmethod
    def learned(
        cls, S: FloatArray, outputs: Outputs, z: FloatArray, seeds: tuple[int, int]
    ) -> tuple[Self | None, FloatArray]:
        """Learn the sizes of the losses of D1; None if they are not recognised on rows left out."""
        fold_seed, seed = seeds
        folds = folds_of(len(S), fold_seed)
        unit = float(np.mean(np.abs(z)))
        logs = np.log(np.abs(z) / unit + SMALLEST_SIZE)
        models = boosted_numbers(S, logs, folds, seed)
        expected = held_out(models, S, folds, _numbers, 1)[:, 0]
        helps = np.sum((logs - expected) ** 2) < np.sum((logs - logs.mean()) ** 2)
        return (cls(models, unit) if helps else None), cls._columns(expected)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected size, in mean losses."""
        return self._columns(_mean_of(self.models, S))

    def words(self, columns: FloatArray, outputs: Outputs) -> list[str]:
        """What it expects of each row."""
        sizes = self.unit * columns[:, 0]
        return [f"a second model {_expects_loss(size)}" for size in sizes.tolist()]

    @staticmethod
    def _columns(logs: FloatArray) -> FloatArray:
        return (np.exp(logs) - SMALLEST_SIZE)[:, None]


@dataclass(frozen=True, eq=False)
class ClassOpinion:
    """Expects the class: how likely that of g is, and what its answer costs on average.

    `labels` are the classes. A loss of labels is the table `costs`, (true, predicted), in a unit of
    its size; a loss of probabilities is known by its name. `boosted` and `linear` models are
    averaged, with weights that suit rows left out.
    """

    ARCHIVE = Kept(
        "ClassOpinion",
        fields=("labels", "costs", "boosted", "linear"),
        single=("loss", "weight", "unit"),
    )
    WIDTH: ClassVar = 2
    ABOUT: ClassVar = "the class"

    labels: Sequence[Any]
    costs: FloatArray | None
    loss: str | None = None
    boosted: Sequence[Any] = ()
    linear: Sequence[Any] = ()
    weight: float = 0.0  # of the boosted models
    unit: float = 1.0  # of the costs

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the opinion that an archive holds, if its losses are those of its classes."""
        found = cls(**parts)
        n, costs = len(found.labels), found.costs
        is_table = isinstance(costs, np.ndarray) and costs.shape == (n, n)
        is_named = costs is None and resolve_loss(found.loss).reads == "probabilities"
        if not 2 <= n <= MOST_CLASSES or not (is_table or is_named):
            raise ValueError("a second opinion has other classes than its losses")
        return found

    def learned(
        self, S: FloatArray, outputs: Outputs, codes: IntArray, seeds: tuple[int, int]
    ) -> tuple[Self, FloatArray]:
        """Learn the classes of D1."""
        fold_seed, seed = seeds
        S, folds, width = _squarable(S), folds_of(len(S), fold_seed), len(self.labels)
        linear = linear_classes(S, codes, folds)
        p = held_out(linear, S, folds, self._probabilities, width)
        weight, boosted = 0.0, boosted_classes(S, codes, folds, seed)
        if boosted:
            other = held_out(boosted, S, folds, self._probabilities, width)
            weight = min(WEIGHTS, key=lambda w: log_loss(codes, w * other + (1 - w) * p))
            p = weight * other + (1 - weight) * p
        used = boosted if weight else (), linear if weight < 1 else ()
        found = replace(self, boosted=used[0], linear=used[1], weight=weight)
        return found, self._columns(p, outputs)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The probability of g's class, and the expected loss."""
        S, p = _squarable(S), np.zeros((len(S), len(self.labels)))
        for models, weight in ((self.boosted, self.weight), (self.linear, 1.0 - self.weight)):
            for model in models:
                p += weight / len(models) * self._probabilities(model, S)
        return self._columns(p, outputs)

    def words(self, columns: FloatArray, outputs: Outputs) -> list[str]:
        """How likely it finds g's answer, and the loss it expects where that says more."""
        answers = outputs.predictions.tolist()
        if outputs.predictions.ndim == 2:
            answers = [self.labels[code] for code in predicted_codes(outputs, self.labels)]
        zero_one = 1.0 - np.eye(len(self.labels))
        is_zero_one = self.costs is not None and np.array_equal(self.unit * self.costs, zero_one)
        texts = []
        for answer, (p, loss) in zip(answers, columns.tolist(), strict=True):
            label = shortened(str(answer), MOST_LETTERS)
            text = f"a second model gives the predicted class {label} a probability {_of(p)}"
            texts.append(text if is_zero_one else f"{text} and {_expects_loss(self.unit * loss)}")
        return texts

    def _probabilities(self, model: Any, S: FloatArray) -> FloatArray:
        return spread_out(model.predict_proba(S), model.classes_, len(self.labels))

    def _columns(self, p: FloatArray, outputs: Outputs) -> FloatArray:
        said, rows = predicted_codes(outputs, self.labels), np.arange(len(p))
        # An answer that did not occur on D1 is given no chance, and the largest cost.
        agrees = np.where(said < 0, 0.0, p[rows, said])
        if self.costs is not None:
            of_answer = np.where(said < 0, self.costs.max(axis=1)[:, None], self.costs[:, said]).T
        else:
            of_answer = self._of_probabilities(outputs)
        return np.column_stack([agrees, (p * of_answer).sum(axis=1)])

    def _of_probabilities(self, outputs: Outputs) -> FloatArray:
        """Loss of g's probabilities for each class."""
        loss, g = resolve_loss(self.loss), outputs.class_probabilities()
        every = range(len(self.labels))
        return np.column_stack([loss(np.full(len(g), code), g) for code in every])


def _of(p: float) -> str:
    """A probability in words; two decimals, and never 0 or 1."""
    if not 0.01 <= p <= 0.99:
        return "below 0.01" if p < 0.5 else "above 0.99"
    return f"of {p:.2f}"


def unit_of(values: FloatArray) -> float:
    """The power of two that brings the largest number to between 1 and 2.

    What an opinion expects is measured in it. Forests see numbers in single precision, and take
    those that differ by less than 1e-7 for equal.
    """
    _, exponent = np.frexp(np.max(np.abs(values)))
    return float(2.0 ** (int(exponent) - 1))


def _squarable(S: FloatArray) -> FloatArray:
    return np.clip(S, -LARGEST_SIGNAL, LARGEST_SIGNAL)


def _numbers(model: Any, S: FloatArray) -> FloatArray:
    return np.asarray(model.predict(S), dtype=np.float64)[:, None]


def _mean_of(models: Sequence[Any], S: FloatArray) -> FloatArray:
    found = [one_per_row(model.predict(S), len(S), "a second opinion") for model in models]
    return np.mean(found, axis=0)


def predicted_codes(outputs: Outputs, labels: Sequence[Any]) -> IntArray:
    """Positions of g's answers among labels; -1 where they are not among them."""
    position = {label: code for code, label in enumerate(labels)}
    answers = outputs.predictions
    if answers.ndim == 2:  # a function that gives probabilities
        return answers.argmax(axis=1).astype(np.int64)
    return np.array([position.get(answer, -1) for answer in answers.tolist()], dtype=np.int64)


OpinionPart = ErrorOpinion | SizeOpinion | ClassOpinion


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
        return found

    def __call__(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The opinion's columns for new rows, given their other signals."""
        return self.part.columns(_inputs(S, outputs, self.output_encoder), outputs)

    @property
    def error_column(self) -> int | None:
        """Position of the expected error, counted from the end; None where there is none."""
        return -self.part.WIDTH if isinstance(self.part, ErrorOpinion) else None


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
        part, columns = learn(seen, outputs, target, (fold_seed, own_seed))
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
