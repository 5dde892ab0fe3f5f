"""What a second opinion can be about: the errors of numbers, the class, or the size of the loss.

Each kind learns on D1 and has columns for new rows, and says in words what it thinks of a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from locuscore._inputs.losses import resolve_loss
from locuscore._inputs.opinion_models import (
    boosted_classes,
    boosted_numbers,
    linear_classes,
    log_loss,
    spread_out,
)
from locuscore._inputs.outputs import Outputs
from locuscore._laws.class_law import ClassLaw
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import one_per_row
from locuscore._shared.folds import Folds
from locuscore._shared.kept import Kept
from locuscore._shared.readable import readable, readable_pair, shortened

MOST_CLASSES = 100
WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)  # of boosted trees beside a linear model
MOST_LETTERS = 60  # of the name of a class
LEAST_GAIN = 0.05  # of the squared errors; less does not pay, see benchmarks/paper/NOTES.md
SMALLEST_SIZE = 0.05  # of the mean loss: smaller ones count as equally small
LARGEST_SIGNAL = 1e100  # a linear model squares them
Label = str | bytes | int | float | None  # what an archive keeps; others are no classes


@dataclass(frozen=True, eq=False)
class ErrorOpinion:
    """Expects the signed error ``y - g(x)`` of a number, in a `unit` of the size of errors."""

    ARCHIVE = Kept("ErrorOpinion", fields=("model",), single=("unit",))
    WIDTH: ClassVar = 2
    ABOUT: ClassVar = "the errors"

    model: Any
    unit: float = 1.0

    @classmethod
    def learned(
        cls, S: FloatArray, outputs: Outputs, errors: FloatArray, folds: Folds, seed: int
    ) -> tuple[Self | None, FloatArray]:
        """Learn the errors of D1; None if corrections remove little of them on rows left out."""
        learned = boosted_numbers(S, errors, folds, seed)
        expected = learned.out_of_fold[:, 0]
        helps = _helps(expected, errors, 0.0)
        return (cls(learned.model) if helps else None), cls._columns(expected)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected error, and its size."""
        return self._columns(_number_per_row(self.model, S))

    def words(self, columns: FloatArray, outputs: Outputs) -> list[str]:
        """What it expects of each row, beside what g says."""
        said = [None] * len(columns) if outputs.predictor is None else outputs.mean_of_members
        errors = self.unit * columns[:, 0]
        return [_against(*pair) for pair in zip(errors.tolist(), said, strict=True)]

    @staticmethod
    def _columns(error: FloatArray) -> FloatArray:
        return np.column_stack([error, np.abs(error)])


def _helps(expected: FloatArray, found: FloatArray, without: float) -> bool:
    """Whether an opinion removes enough of the squared errors that there would be without it."""
    left = float(np.sum((found - expected) ** 2))
    return left <= (1 - LEAST_GAIN) * float(np.sum((found - without) ** 2))


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
    """Expects the typical size of the loss: boosted logarithms, so that large ones do not rule.

    It is measured in mean losses, `unit`, so that none is too large for an engine.
    """

    ARCHIVE = Kept("SizeOpinion", fields=("model",), single=("unit",))
    WIDTH: ClassVar = 1
    ABOUT: ClassVar = "the size of the loss"

    model: Any
    unit: float = 1.0

    @classmethod
    def learned(
        cls, S: FloatArray, outputs: Outputs, z: FloatArray, folds: Folds, seed: int
    ) -> tuple[Self | None, FloatArray]:
        """Learn the sizes of the losses of D1; None if they are not recognised on rows left out."""
        unit = float(np.mean(np.abs(z)))
        logs = np.log(np.abs(z) / unit + SMALLEST_SIZE)
        learned = boosted_numbers(S, logs, folds, seed)
        expected = learned.out_of_fold[:, 0]
        helps = _helps(expected, logs, logs.mean())
        return (cls(learned.model, unit) if helps else None), cls._columns(expected)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The expected size, in mean losses."""
        return self._columns(_number_per_row(self.model, S))

    def words(self, columns: FloatArray, outputs: Outputs) -> list[str]:
        """What it expects of each row."""
        sizes = self.unit * columns[:, 0]
        # The mean of logarithms is that of a typical loss; a mean loss would be larger.
        text = "a second model puts the typical size of the loss at"
        return [f"{text} {readable(max(size, 0.0))}" for size in sizes.tolist()]

    @staticmethod
    def _columns(logs: FloatArray) -> FloatArray:
        return (np.exp(logs) - SMALLEST_SIZE)[:, None]


@dataclass(frozen=True, eq=False)
class ClassOpinion:
    """Expects the class: how likely that of g is, and what its answer costs on average.

    `labels` are the classes. A loss of labels is the table `costs`, (true, predicted), in a unit of
    its size; a loss of probabilities is known by its name. A `boosted` and a `linear` model are
    averaged, with weights that suit rows left out; one of no weight is None.
    """

    ARCHIVE = Kept(
        "ClassOpinion",
        fields=("labels", "boosted", "linear"),
        numbers=("costs",),
        single=("loss", "weight", "unit"),
    )
    WIDTH: ClassVar = 2
    ABOUT: ClassVar = "the class"

    labels: Sequence[Any]
    costs: FloatArray | None
    loss: str | None = None
    boosted: Any = None
    linear: Any = None
    weight: float = 0.0  # of the boosted model
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
        are_labels = all(isinstance(label, Label) for label in found.labels)
        if not are_labels or not 0 <= found.weight <= 1:
            raise ValueError("a second opinion has no labels or no weights")
        if (found.weight and found.boosted is None) or (found.weight < 1 and found.linear is None):
            raise ValueError("a second opinion lacks a model")
        for model in (found.boosted, found.linear):
            if model is not None and not _are_codes(getattr(model, "classes_", None), n):
                raise ValueError("a second opinion knows other classes than it names")
        return found

    def learned(
        self, S: FloatArray, outputs: Outputs, codes: IntArray, folds: Folds, seed: int
    ) -> tuple[Self | None, FloatArray]:
        """Learn the classes of D1; None if rows without one of the folds are all of one class."""
        S, width = _squarable(S), len(self.labels)
        if not all(np.ptp(codes[kept]) for kept, _ in folds):
            return None, np.empty((len(S), 0))
        linear = linear_classes(S, codes, folds, width)
        boosted = boosted_classes(S, codes, folds, seed, width)
        p, weight = linear.out_of_fold, 0.0
        if boosted is not None:
            other = boosted.out_of_fold
            weight = min(WEIGHTS, key=lambda w: log_loss(codes, w * other + (1 - w) * p))
            p = weight * other + (1 - weight) * p
        found = replace(
            self,
            boosted=boosted.model if boosted is not None and weight else None,
            linear=linear.model if weight < 1 else None,
            weight=weight,
        )
        return found, self._columns(p, outputs)

    def columns(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """The probability of g's class, and the expected loss."""
        S, p = _squarable(S), np.zeros((len(S), len(self.labels)))
        for model, weight in ((self.boosted, self.weight), (self.linear, 1.0 - self.weight)):
            if weight:
                p += weight * spread_out(model.predict_proba(S), model.classes_, p.shape[1])
        return self._columns(p, outputs)

    @property
    def law(self) -> ClassLaw | None:
        """What its columns say of the loss; None unless just the wrong answers cost something."""
        zero_one = 1.0 - np.eye(len(self.labels))
        if self.costs is None or not np.array_equal(np.sign(self.costs), zero_one):
            return None
        return ClassLaw(-self.WIDTH, self.unit, np.unique(self.unit * self.costs))

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


def _are_codes(classes: Any, n: int) -> bool:
    """Whether a model's classes are distinct places among n labels."""
    are_whole = isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.dtype.kind in "iu"
    return bool(
        are_whole
        and len(np.unique(classes)) == len(classes)
        and ((classes >= 0) & (classes < n)).all()
    )


def unit_of(values: FloatArray) -> float:
    """The power of two that brings the largest number to between 1 and 2.

    What an opinion expects is measured in it. Forests see numbers in single precision, and take
    those that differ by less than 1e-7 for equal.
    """
    _, exponent = np.frexp(np.max(np.abs(values)))
    return float(2.0 ** (int(exponent) - 1))


def _squarable(S: FloatArray) -> FloatArray:
    return np.clip(S, -LARGEST_SIGNAL, LARGEST_SIGNAL)


def _number_per_row(model: Any, S: FloatArray) -> FloatArray:
    return one_per_row(model.predict(S), len(S), "a second opinion")


def predicted_codes(outputs: Outputs, labels: Sequence[Any]) -> IntArray:
    """Positions of g's answers among labels; -1 where they are not among them."""
    position = {label: code for code, label in enumerate(labels)}
    answers = outputs.predictions
    if answers.ndim == 2:  # a function that gives probabilities
        if answers.shape[1] != len(labels):
            raise ValueError(
                f"a second opinion knows {len(labels)} classes, but the predictor gives "
                f"{answers.shape[1]} probabilities."
            )
        return answers.argmax(axis=1).astype(np.int64)
    return np.array([position.get(answer, -1) for answer in answers.tolist()], dtype=np.int64)


OpinionPart = ErrorOpinion | SizeOpinion | ClassOpinion
