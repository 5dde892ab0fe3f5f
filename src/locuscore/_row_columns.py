"""Rows in, named columns out: which columns a `Scorer` gives, and their values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from locuscore._inputs.predictor import classes_of
from locuscore._inputs.schema import Schema
from locuscore._inputs.signals import MOST_ROWS_AT_ONCE
from locuscore._laws.scores import Score
from locuscore._locus import Locus
from locuscore._protocols import BoolArray, FloatArray, Rows
from locuscore._rules.group_rule import Rule
from locuscore._shared.blocks import row_blocks
from locuscore._shared.checks import BadRowsError
from locuscore._shared.frames import (
    as_batch,
    columns_like,
    frames_seen_once,
    n_rows,
    numbered,
    take_rows,
)
from locuscore._shared.labels import read_labels
from locuscore._shared.rows import floats_per_row

Role = Literal["prediction", "bound", "score", "flag"]


@dataclass(frozen=True)
class Column:
    """A column of a `Scorer`'s output: its name, and what it holds.

    `role` is ``"prediction"``, ``"bound"``, ``"score"`` or ``"flag"``. Use the role, not the start
    of the name: your own columns may be called ``bound_note`` or ``flag``.

    Examples
    --------
    >>> from locuscore import Column
    >>> columns = [Column("prediction", "prediction"), Column("bound_0.1", "bound")]
    >>> [column.name for column in columns if column.role == "bound"]
    ['bound_0.1']
    """

    name: str
    role: Role


class RowColumns:
    """The methods of `Scorer` that turn rows into columns."""

    locus: Locus
    rule: Rule | None
    alphas: Sequence[float]

    @property
    def schema(self) -> Schema:
        """Kind of rows, names and types of the columns that a batch must have."""
        return self.locus.schema_

    @property
    def columns(self) -> tuple[Column, ...]:
        """Name and role of each column a batch gives, in order."""
        n = self.locus.n_outputs_
        first = ["prediction"][:n] if n < 2 else [f"prediction_{j}" for j in range(n)]
        bounds = numbered("bound", np.array(self.alphas))
        last = () if self.rule is None else (Column("score", "score"), Column("flag", "flag"))
        return (
            *(Column(name, "prediction") for name in first),
            *(Column(name, "bound") for name in bounds),
            *last,
        )

    @property
    def column_names(self) -> list[str]:
        """Names of the columns a batch gives, in order."""
        return [column.name for column in self.columns]

    @property
    def asks(self) -> tuple[str, ...]:
        """What must be passed with a batch, ``groups`` or ``weights``; empty if rows are enough."""
        of_rule = None if self.rule is None else self.rule.asks
        found = (self.locus.calibration_.asks, of_rule)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def check_rows_are_enough(self) -> None:
        """Raise if rows cannot be scored by themselves, as files, services and Spark must."""
        if self.asks:
            names = " and ".join(self.asks)
            raise ValueError(
                f"this scorer was given {names} as an array, so rows alone cannot be scored; call "
                f"it in Python with {names}=, or fit it with a column that tells them."
            )
        kind = self.schema.row_kind
        if kind is not None:
            raise ValueError(
                f"this scorer was fitted on {kind.words}; files, the service and Spark bring "
                "tables. Call it in Python, or fit it on a frame: text, an embedding or a path to "
                "an image can be its columns."
            )

    def groups_of(self, batch: Any, groups: Any = None) -> list[Any] | None:
        """Label of each row's group, as the rule or else the calibration tells them apart.

        None if neither has groups. `groups` has the labels where they were given as an array.
        """
        X = self.schema.conform(as_batch(batch)[0])
        n, calibration = n_rows(X), self.locus.calibration_
        found = None if self.rule is None else self.rule.labels(X, groups)
        if found is None and calibration.entry_labels is not None:
            names = calibration.entry_labels
            reads = calibration.reads
            entries = calibration.entries(groups, n) if reads is None else reads(X)
            return [names[entry] for entry in entries.tolist()]
        return None if found is None else read_labels(found, n)

    def __call__(self, batch: Any, *, groups: Any = None, weights: Any = None) -> Any:
        """Score a batch of rows, possibly empty.

        `groups` and `weights`, one per row, are for calibrations that were given them as arrays;
        `groups` are also for a `GroupRule` without a column.
        """
        with frames_seen_once():
            given, one_batch = as_batch(batch)
            try:
                columns = self._columns(self.schema.conform(given), groups=groups, weights=weights)
            except BadRowsError as error:
                error.add_note(
                    "To flag such rows instead: Scorer.tolerate(batch), or --bad-rows flag."
                )
                raise
            return columns_like(given, columns, one_batch=one_batch)

    def tolerate(
        self, batch: Any, *, groups: Any = None, weights: Any = None
    ) -> tuple[Any, BoolArray]:
        """Score a batch in which some rows may be bad, and flag these instead of raising.

        A row is bad if the loss model cannot use it: a number in it is infinite, or the prediction
        is NaN or infinite. It then has no prediction, infinite bounds and an infinite score, and is
        flagged. Errors raised by the predictor itself are still raised. `groups` and `weights` are
        those of calling the scorer.

        Returns
        -------
        tuple
            What calling the scorer gives, and for each row whether it is bad.
        """
        given, one_batch = as_batch(batch)
        X = self.schema.conform(given)
        n, told = n_rows(X), {}
        for name, value in (("groups", groups), ("weights", weights)):
            if value is not None:  # labels may be of any type, so no array of one type
                told[name] = np.fromiter(read_labels(value, n, name), dtype=object, count=n)
        blocks = list(row_blocks(n, floats_per_row(X), MOST_ROWS_AT_ONCE)) or [slice(0, 0)]
        found = [
            self._tolerated(take_rows(X, rows), {name: part[rows] for name, part in told.items()})
            for rows in blocks
        ]
        is_bad = np.concatenate([bad for _, bad in found])
        columns = {
            name: np.concatenate([part[name] for part, _ in found]) for name in self.column_names
        }
        return columns_like(given, columns, one_batch=one_batch), is_bad

    def _tolerated(
        self, X: Rows, told: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], BoolArray]:
        is_bad = np.zeros(n_rows(X), dtype=bool)
        while True:
            good = np.flatnonzero(~is_bad)
            try:
                parts = {name: part[good] for name, part in told.items()}
                rows = X if len(good) == len(is_bad) else take_rows(X, good)
                known = self._columns(rows, **parts)
                break
            except BadRowsError as error:
                is_bad[good[error.rows]] = True
        if len(good) == len(is_bad):
            return known, is_bad
        columns = {part.name: _blank(part.role, known[part.name], is_bad) for part in self.columns}
        for name, values in columns.items():
            values[good] = known[name]
        return columns, is_bad

    def _columns(self, X: Rows, groups: Any = None, weights: Any = None) -> dict[str, np.ndarray]:
        wanted = [Score.bound(alpha) for alpha in self.alphas]
        labels = None
        if self.rule is not None:
            wanted.append(self.rule.score)
            labels = self.rule.labels(X, groups)
        groups = self.locus.groups_for_calibration(self.rule, groups)
        predictions, values = self.locus.joint_scores(X, wanted, groups=groups, weights=weights)
        return self.prediction_columns(predictions) | self._scores(values, labels)

    def prediction_columns(self, known: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the columns of predictions, given g(x); None where there are no rows."""
        predictor = self.locus.predictor_
        if predictor is None:
            return {}
        classes = classes_of(predictor)
        if known is None:  # no rows, and most predictors refuse to predict nothing
            n = self.locus.n_outputs_
            shape = 0 if n < 2 else (0, n)
            known = np.empty(shape, dtype=None if classes is None else np.asarray(classes).dtype)
        if classes is None and known.dtype.kind in "biuf" and known.ndim <= 2:
            known = known.astype(np.float64)
        if known.ndim != 2:
            return {"prediction": known}
        return {f"prediction_{j}": column for j, column in enumerate(known.T)}

    def _scores(self, values: FloatArray, labels: Any) -> dict[str, np.ndarray]:
        columns = dict(zip(numbered("bound", np.array(self.alphas)), values.T, strict=False))
        if self.rule is None:
            return columns
        score = values[:, -1]
        accepted = self.rule.accepts(score, self.rule.score, labels)
        return columns | {"score": score, "flag": ~accepted}


def _blank(role: Role, values: np.ndarray, rows: BoolArray) -> np.ndarray:
    """Return a column in which every row has the value of a bad one."""
    if role == "flag":
        return np.ones(len(rows), dtype=bool)
    if role != "prediction":
        return np.full(len(rows), np.inf)
    shape = (len(rows), *values.shape[1:])
    return np.full(shape, np.nan) if values.dtype.kind == "f" else np.full(shape, None)
