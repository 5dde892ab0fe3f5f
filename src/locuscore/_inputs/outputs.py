"""What g said about some rows, asked once; losses, signals and scores all read it from here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.losses import Loss
from locuscore._inputs.members import has_members, mean_and_spread
from locuscore._inputs.predictor import call, class_codes, classes_of, is_classifier, raw_output
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.blocks import row_blocks
from locuscore._shared.checks import (
    BadRowsError,
    check_losses,
    check_numeric,
    check_same_order,
    check_targets,
    without_single_axis,
)
from locuscore._shared.frames import as_array, n_rows, take_rows
from locuscore._shared.rows import floats_per_row
from locuscore._shared.targets import as_targets, holds_parts, shown_as_columns

Answer = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Rows, and what the predictor says about them: asked when first needed, and only once.

    With `with_spread` the members of an ensemble are asked as well, in one pass of their own.
    `at` are the places of the rows in `source`, None for all of them; they are taken when first
    looked at, so that images whose answers are known are not copied.
    """

    predictor: Any
    source: Rows
    with_spread: bool = False
    _answers: dict[str, Answer] = field(default_factory=dict, repr=False)
    at: IntArray | None = None

    @classmethod
    def of(cls, predictor: Any, X: Rows, *, for_signals: bool) -> "Outputs":
        """Rows to ask about; `for_signals` if the signals hold what the predictor says."""
        return cls(predictor, X, for_signals and has_members(predictor))

    def __len__(self) -> int:
        return n_rows(self.source) if self.at is None else len(self.at)

    @cached_property
    def X(self) -> Rows:  # noqa: N802 - as everywhere
        """The rows themselves."""
        return self.source if self.at is None else take_rows(self.source, self.at)

    def take(self, rows: slice | IntArray) -> "Outputs":
        """Some of the rows, with the answers that are known already."""
        known = {
            question: tuple(part[rows] for part in answer)
            for question, answer in self._answers.items()
        }
        if isinstance(rows, slice) and self.at is None:  # of an array it is a view
            return Outputs(self.predictor, take_rows(self.X, rows), self.with_spread, known)
        at = np.arange(len(self))[rows] if self.at is None else self.at[rows]
        return Outputs(self.predictor, self.source, self.with_spread, known, at)

    def blocks(self, most: int, copies: int = 1) -> Iterator[tuple[int, "Outputs"]]:
        """Consecutive rows, few enough to bound memory, with the position of the first.

        `copies` is how many times as many floats as a row has are made of it.
        """
        for rows in row_blocks(len(self), floats_per_row(self.source) * copies, most):
            is_all = rows.start == 0 and rows.stop == len(self)
            yield rows.start, self if is_all else self.take(rows)

    def ask_all(self) -> None:
        """Ask what signals are made of, about all rows at once."""
        _ = self.spread, self.raw_probabilities or self.mean_of_members

    @property
    def predictions(self) -> np.ndarray:
        """g(x): shape (n,), (n, outputs) where there are several, or one image or object a row."""
        return without_single_axis(self._answer("predict")[0])

    @property
    def as_given(self) -> np.ndarray:
        """g(x) in the shape the predictor gave it."""
        return self._answer("predict")[0]

    @property
    def mean_of_members(self) -> np.ndarray:
        """g(x) to rounding: the mean over the members where they are asked, which spares a pass.

        A loss needs g(x) to the last bit, since it may jump there.
        """
        if not self.with_spread or len(self._answer("members")) == 1:
            return self.predictions
        return without_single_axis(self._answer("members")[0])

    @property
    def spread(self) -> FloatArray | None:
        """Standard deviation over the members, (n, outputs); None unless it was asked for."""
        return self._answer("members")[-1] if self.with_spread else None

    @property
    def probabilities(self) -> tuple[FloatArray, ...]:
        """Class probabilities (n, classes), one matrix per output; empty for a regressor."""
        return tuple(part.astype(np.float64, copy=False) for part in self.raw_probabilities)

    @property
    def raw_probabilities(self) -> tuple[np.ndarray, ...]:
        """Class probabilities in the precision that the predictor gives them."""
        return self._answer("predict_proba") if hasattr(self.predictor, "predict_proba") else ()

    def class_probabilities(self) -> FloatArray:
        """The one matrix that a loss reads; a function may give it as its output."""
        if hasattr(self.predictor, "predict") and not hasattr(self.predictor, "predict_proba"):
            raise TypeError(
                f"this loss needs class probabilities, but {type(self.predictor).__name__} has no "
                "predict_proba; calibrate it, or use the loss 'zero_one'."
            )
        matrices = self.probabilities or self._answer("predict")
        if len(matrices) > 1 or matrices[0].ndim != 2 or len(matrices[0]) != len(self):
            shapes = ", ".join(str(matrix.shape) for matrix in matrices)
            raise ValueError(
                f"class probabilities must have shape ({len(self)}, classes); got {shapes}."
            )
        return np.asarray(matrices[0], dtype=np.float64)

    @property
    def n_outputs(self) -> int:
        """Number of predictions per row; none without a predictor."""
        if self.predictor is None:
            return 0
        return self.predictions.shape[1] if self.predictions.ndim == 2 else 1

    def _answer(self, question: str) -> Answer:
        if question not in self._answers:
            self._answers[question] = _QUESTIONS[question](self.predictor, self.X)
        return self._answers[question]


def _ask_probabilities(predictor: Any, X: Rows) -> Answer:
    answer = call(predictor, predictor.predict_proba, X)
    # One matrix, or a list of one for each output.
    matrices = answer if isinstance(answer, list) else [answer]
    arrays = (np.asarray(matrix) for matrix in matrices)
    return tuple(a if a.dtype.kind == "f" else np.asarray(a, dtype=np.float64) for a in arrays)


def _ask_members(predictor: Any, X: Rows) -> Answer:
    answer = call(predictor, lambda rows: mean_and_spread(predictor, rows), X)
    return tuple(part for part in answer if part is not None)


_QUESTIONS = {
    "predict": lambda predictor, X: (raw_output(predictor, X),),
    "predict_proba": _ask_probabilities,
    "members": _ask_members,
}


def own_signals(outputs: Outputs) -> np.ndarray:
    """What g itself says about each row, as columns; text where g is a function that returns text.

    A classifier gives its class code, the margin between its two likeliest classes and the
    entropy of its probabilities; one with members also how far they disagree on that class. A
    forest or bag of regressors gives the mean and the standard deviation over its members. Any
    other predictor gives its output, as `shown_as_columns` has it.
    """
    if outputs.probabilities:
        parts = [_class_signals(matrix) for matrix in outputs.probabilities]
        if outputs.spread is not None:
            code = outputs.probabilities[0].argmax(axis=1)
            parts.append(np.take_along_axis(outputs.spread, code[:, None], axis=1))
        return np.hstack(parts)
    predictions, classes = outputs.mean_of_members, classes_of(outputs.predictor)
    if classes is not None and predictions.ndim == 1:
        predictions = class_codes(predictions, classes)
    columns = shown_as_columns(predictions)
    return columns if outputs.spread is None else np.hstack([columns, outputs.spread])


def said_by_predictor(outputs: Outputs, encoder: Encoder) -> FloatArray:
    """Return the columns of `own_signals` as floats; a number must be one."""
    values = encoder.transform(own_signals(outputs))
    # Text that fit has not seen becomes NaN, which engines take.
    if not encoder.codes_:
        _check_finite(values)
    return values


def check_stored(outputs: Outputs) -> None:
    """Raise where predictions that are a column of X are missing."""
    answers = outputs.predictions
    if answers.dtype.kind == "f":
        _check_finite(answers.reshape(len(answers), -1))


def _check_finite(values: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise BadRowsError(
            f"the predictor returned NaN or infinity for {len(bad)} rows out of {len(values)}",
            bad,
            "such a prediction has no loss to bound. Leave those rows out.",
        )


def own_signal_names(predictor: Any, width: int) -> list[str]:
    """A name for each of the columns of `own_signals`."""
    if hasattr(predictor, "predict_proba"):
        parts = ["predicted class", "margin between classes", "entropy of the predictor"]
        parts += ["spread of the predictor"] if has_members(predictor) else []
        n = width // len(parts)
        return [part if n == 1 else f"{part} {j}" for j in range(n) for part in parts]
    parts = ["prediction", *(["spread of the predictor"] if has_members(predictor) else [])]
    n = width // len(parts)
    return [part if n == 1 else f"{part} {j}" for part in parts for j in range(n)]


def _class_signals(probabilities: FloatArray) -> FloatArray:
    top = np.sort(probabilities, axis=1)[:, -2:]
    margin = top[:, -1] - (top[:, 0] if top.shape[1] == 2 else 0.0)
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    entropy = -(probabilities * logs).sum(axis=1)
    return np.column_stack([probabilities.argmax(axis=1), margin, entropy])


def realised_losses(loss: Loss, outputs: Outputs, y: ArrayLike | None) -> FloatArray:
    """Return ``L(y, g(x))`` for each row, giving the loss what it reads."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    check_same_order(X=outputs.X, y=y)
    _check_loss_fits(loss, outputs.predictor)
    n = len(outputs)
    every = as_targets(y)
    targets = check_targets(every, n)
    if not n:
        return np.empty(0)
    if loss.reads == "values":  # an axis of length one may be a list of one token
        return check_losses(loss(every, outputs.as_given), n)
    if loss.reads != "anything" and every.dtype == object and holds_parts(every.ravel().tolist()):
        raise ValueError(
            f"y is a list of lists, sets or arrays that make no single array, but the loss "
            f"{loss.name} needs one value per row; expected rows of one length, or a loss of such "
            "values, such as 'f1', 'edit' or 'iou'."
        )
    if loss.reads == "probabilities":
        probabilities = outputs.class_probabilities()
        codes = class_codes(targets, classes_of(outputs.predictor))
        return check_losses(loss(codes, probabilities), n)
    output = outputs.predictions
    targets, output = _as_read(loss, outputs.predictor, targets, output)
    takes_any_shape = loss.reads in ("anything", "vectors")
    if not takes_any_shape and not targets.shape == output.shape == (n,):
        raise ValueError(
            f"y has shape {targets.shape}, and the predictor returned shape {output.shape}; the "
            f"loss {loss.name} compares one value with one. For several outputs use the loss "
            "'euclidean', 'max' or 'sum', norm(kind, weights), or one of your own, such as "
            "lambda y, g: np.abs(y - g).mean(axis=1)."
        )
    return check_losses(loss(targets, output), n)


def loss_of_pairs(loss: Loss, predictor: Any, labels: Sequence[Any]) -> FloatArray:
    """Return the loss of each true label (rows) and answer of g (columns)."""
    n = len(labels)
    pairs = np.repeat(as_array(labels), n), np.tile(as_array(labels), n)
    return check_losses(loss(*_as_read(loss, predictor, *pairs)), n * n).reshape(n, n)


def _as_read(
    loss: Loss, predictor: Any, targets: np.ndarray, output: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Targets and answers as numbers, class codes or as they are: what the loss reads."""
    if loss.reads in ("numbers", "vectors"):
        return check_numeric(targets, "y"), check_numeric(output, "the predictor's output")
    if loss.reads == "codes":
        classes = cost_classes(loss, predictor)
        return class_codes(targets, classes), class_codes(output, classes)
    return targets, output


def _check_loss_fits(loss: Loss, predictor: Any) -> None:
    """Raise where no loss was chosen and the default, for numbers, would be used on classes."""
    model = getattr(predictor, "__self__", predictor)  # of a method, such as model.predict
    if loss.is_default and is_classifier(model):
        raise ValueError(
            f"the predictor {type(model).__name__} is a classifier, and the default loss is "
            "'absolute', for numbers; choose one of 'zero_one', 'log', 'brier' or cost(matrix). If "
            "the labels are numbers whose difference has a meaning, pass loss='absolute'."
        )


def cost_classes(loss: Loss, predictor: Any) -> Any:
    """Return the classes that the rows and columns of a cost matrix stand for."""
    classes = classes_of(predictor) if loss.classes is None else loss.classes
    if classes is not None and len(classes) != loss.n_classes:
        raise ValueError(
            f"the cost matrix has {loss.n_classes} classes, but the predictor knows "
            f"{len(classes)}: {np.asarray(classes).tolist()}."
        )
    return classes
