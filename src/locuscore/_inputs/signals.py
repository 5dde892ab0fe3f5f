"""The float matrix an engine sees: encoded x, what the predictor says, a second opinion on it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.opinion import Labelled, Opinion, fit_opinion
from locuscore._inputs.outputs import (
    Outputs,
    check_stored,
    own_signal_names,
    own_signals,
    said_by_predictor,
)
from locuscore._inputs.predictor import PredictionColumn
from locuscore._inputs.unseen import count_categories
from locuscore._laws.class_law import ClassLaw
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import BadRowsError
from locuscore._shared.frames import column_names, n_rows
from locuscore._shared.kept import Kept

MOST_ROWS_AT_ONCE = 65_536
PARTS = ("x", "predictor", "opinion")
SignalPart = Literal["all", "x", "predictor", "opinion"] | Callable[[Rows], Any]
SignalChoice = SignalPart | Sequence[SignalPart]


@dataclass(frozen=True, eq=False)
class Signals:
    """A fitted map from rows, and what g says of them, to floats.

    Its columns stand in this order: x, turned into floats by `encoder`; what g says, text in it by
    codes that `output_encoder` learned on D1; the outputs of the user's own `functions` of X; and a
    second `opinion`. Each is left out where it is None or empty.
    """

    # A function cannot be kept; it is given again.
    ARCHIVE = Kept(
        "Signals",
        fields=("encoder", "output_encoder", "opinion"),
        single=("own_width", "function_width"),
        later=("opinion", "own_width", "function_width"),
        holds=(Opinion,),
    )

    encoder: Encoder | None = None
    output_encoder: Encoder | None = None
    opinion: Opinion | None = None
    functions: tuple[Callable[[Rows], Any], ...] = ()
    # How many columns hold what g says, and the functions' outputs; earlier archives do not count.
    own_width: int = 0
    function_width: int = 0

    @property
    def needs_functions(self) -> bool:
        """Whether there is nothing to be had without the user's functions."""
        return self.function_width > 0 or (self.encoder is None and self.output_encoder is None)

    def __call__(self, outputs: Outputs) -> FloatArray:
        values = self.without_opinion(outputs)
        if self.opinion is None:
            return values
        return np.hstack([values, self.opinion(values, outputs)])

    def without_opinion(self, outputs: Outputs) -> FloatArray:
        """All columns but those of the second opinion, which sees them."""
        return np.hstack(self._parts(outputs))

    def as_of_new_rows(self, S: FloatArray, outputs: Outputs) -> FloatArray:
        """What new rows with the signals of these rows of D1 have: the opinion of new rows."""
        if self.opinion is None:
            return S
        values = S[:, : -self.opinion.part.WIDTH]
        return np.hstack([values, self.opinion(values, outputs)])

    def _parts(self, outputs: Outputs) -> list[FloatArray]:
        parts = []
        if self.encoder is not None:
            X = outputs.X
            parts.append(_checked(self.encoder.transform(X), X, column_names(X)))
        if isinstance(outputs.predictor, PredictionColumn):
            check_stored(outputs)
        if self.output_encoder is not None:
            parts.append(said_by_predictor(outputs, self.output_encoder))
        return parts + [_in_blocks(function, outputs) for function in self.functions]

    @property
    def error_column(self) -> int | None:
        """Position from the end of the error that the opinion expects; None without it."""
        return None if self.opinion is None else self.opinion.error_column

    @property
    def class_law(self) -> ClassLaw | None:
        """What the opinion on a class says of the loss; None without one."""
        return None if self.opinion is None else self.opinion.class_law

    def spread_column(self, outputs: Outputs) -> int | None:
        """Position from the end of the spread of g's members; None without it, or of several."""
        if self.output_encoder is None or outputs.spread is None or outputs.n_outputs != 1:
            return None
        if outputs.probabilities:  # what classes disagree about is not in the unit of the loss
            return None
        return -1 - self.opinion_width - self.function_width

    def columns(self, width: int, part: str) -> slice:
        """Where x, what the predictor says, or the user's functions stand among so many columns."""
        n_told = width - self.opinion_width
        own = n_told - self.function_width - self.own_width
        functions = n_told - self.function_width
        places = {"x": (0, own), "predictor": (own, functions), "functions": (functions, n_told)}
        begin, end = places[part]
        if begin == end:
            raise ValueError(
                f"phi={part!r} is no part of the signals, which are {self.summary(own)}."
            )
        return slice(begin, end)

    def blocks(self, outputs: Outputs) -> Iterator[tuple[int, Outputs, FloatArray]]:
        """Position, outputs and signals of consecutive rows, few enough to bound memory."""
        for start, part, S in signal_blocks(self, outputs):
            count_categories(self.encoder, part.X, S)
            yield start, part, S

    def outputs(self, predictor: Any, X: Rows) -> Outputs:
        """Rows to ask the predictor about, for these signals or for losses."""
        is_asked = self.output_encoder is not None or self.opinion is not None
        return Outputs.of(predictor, X, for_signals=is_asked)

    def players(self, width: int) -> IntArray:
        """What each of so many columns belongs to: itself, or the opinion, whose columns are one.

        A correction of one row with the size of another row's correction would mean nothing.
        """
        own = 0 if self.output_encoder is None else self.own_width
        x = width - own - self.function_width - self.opinion_width
        parts = [_owners(self.encoder, x), _owners(self.output_encoder, own)]
        parts += [np.arange(self.function_width), np.zeros(self.opinion_width, dtype=np.int64)]
        # The players of each part are numbered behind those of the parts before it.
        begins = np.cumsum([0, *(len(np.unique(part)) for part in parts)])
        return np.concatenate([part + begin for part, begin in zip(parts, begins, strict=False)])

    def names(self, predictor: Any, features: list[str], width: int) -> list[str]:
        """A name for each of the `players`, given those of the columns of X."""
        x = [] if self.encoder is None else self.encoder.names(features)
        rest = width - self.x_width(len(features)) - self.opinion_width
        n_own = 0 if self.output_encoder is None else rest - self.function_width
        functions = [f"signal {j}" for j in range(rest - n_own)]
        if self.output_encoder is not None:
            n_own -= self.output_encoder.n_vectors
        opinion = [] if self.opinion is None else ["second opinion"]
        return [*x, *own_signal_names(predictor, n_own), *functions, *opinion]

    def x_width(self, n_features: int) -> int:
        """Number of columns that are x itself, if it has so many."""
        if self.encoder is None:
            return 0
        reduced = self.encoder.reduction_
        return n_features + self.encoder.n_vectors if reduced is None else reduced.width

    def words(self, S: FloatArray, outputs: Outputs) -> Sequence[str | None]:
        """What the second opinion says of each row, in one clause; None without it."""
        if self.opinion is None:
            return [None] * len(S)
        return self.opinion.part.words(S[:, -self.opinion_width :], outputs)

    def summary(self, n_features: int) -> str:
        """What the columns are, and how many, in words."""
        parts: list[tuple[str, int]] = []
        x = [] if self.encoder is None else [f"x ({self.encoder.summary(n_features)})"]
        if self.output_encoder is not None:
            parts.append(("what the predictor says", self.own_width))
        if self.needs_functions:
            parts.append(("your own functions of X", self.function_width))
        if self.opinion is not None:
            parts.append((f"a second opinion on {self.opinion.part.ABOUT}", self.opinion_width))
        # The unit is said once, with the first number.
        said = [
            "" if x or i else " column" if width == 1 else " columns"
            for i, (_, width) in enumerate(parts)
        ]
        others = [
            f"{name} ({width:,}{unit})" if width else name
            for (name, width), unit in zip(parts, said, strict=True)
        ]
        return ", ".join([*x, *others])

    @property
    def n_vectors(self) -> int:
        """Number of columns that depend on what D1's texts, or sparse rows, taught."""
        encoders = (one for one in (self.encoder, self.output_encoder) if one is not None)
        return sum(
            one.n_vectors if one.reduction_ is None else one.reduction_.width for one in encoders
        )

    @property
    def opinion_width(self) -> int:
        """Number of columns of the second opinion."""
        return 0 if self.opinion is None else self.opinion.part.WIDTH


def signal_blocks(
    signals: Callable[[Outputs], FloatArray], outputs: Outputs, copies: int = 1
) -> Iterator[tuple[int, Outputs, FloatArray]]:
    """Position, outputs and signals of consecutive rows; a bad row is told by its position."""
    for start, part in outputs.blocks(MOST_ROWS_AT_ONCE, copies):
        try:
            S = signals(part)
        except BadRowsError as error:
            error.move(start)
            raise
        yield start, part, S


def _in_blocks(function: Callable[[Rows], Any], outputs: Outputs) -> FloatArray:
    """The columns of a function of X, which is shown rows few enough to bound memory."""
    blocks = signal_blocks(lambda part: _checked(function(part.X), part.X), outputs)
    found = [S for _, _, S in blocks]
    return found[0] if len(found) == 1 else np.vstack(found)


def _owners(encoder: Encoder | None, width: int) -> IntArray:
    return np.arange(width) if encoder is None else encoder.owners(width)


def fit_signals(
    choice: SignalChoice, outputs: Outputs, labels: Labelled, seed: int
) -> tuple[Signals, FloatArray]:
    """Learn the signals on D1; returns them with those of D1, where the opinion is out of fold.

    ``"x"`` is encoded x, alone as in the paper; ``"predictor"`` is what g says about it,
    ``"opinion"`` a second opinion on it, and ``"all"`` all three. A function of X, for instance the
    last hidden layer of a network, gives columns of its own. A list has the columns of each.
    """
    names, functions = chosen_parts(choice)
    encoder = Encoder().fit(outputs.X) if "x" in names and column_names(outputs.source) else None
    if encoder is None and choice == "x":
        raise ValueError(
            "signals='x' are the columns of X, and these rows have none; use 'predictor', or a "
            "function of X that returns a float matrix, such as an embedding."
        )
    # Predictions that are a column of X are among its signals already.
    is_in_x = isinstance(outputs.predictor, PredictionColumn) and encoder is not None
    own = None
    if outputs.predictor is not None and not is_in_x and asks_predictor(choice):
        own = Encoder().fit(own_signals(outputs))
    if outputs.predictor is None and names <= {"predictor", "opinion"} and not functions:
        raise ValueError(
            "signals='predictor' is what the predictor says, and this Locus has none; use 'x'."
        )
    if encoder is None and outputs.predictor is None and not functions:
        raise ValueError(
            "there is no predictor, and these rows have no columns, so the engine would see "
            "nothing; pass signals as a function of X, such as an embedding."
        )
    shown, hidden = (own, None) if "predictor" in names else (None, own)
    signals = Signals(encoder, shown, None, functions)
    parts = signals._parts(outputs)
    widths = [part.shape[1] for part in parts]
    first = len(parts) - len(functions)
    own_width = 0 if shown is None else widths[first - 1]
    signals = replace(signals, own_width=own_width, function_width=sum(widths[first:]))
    S = np.hstack(parts)
    if "opinion" not in names:
        return signals, S
    opinion, columns = fit_opinion(S, outputs, labels, hidden, seed)
    return replace(signals, opinion=opinion), np.hstack([S, columns])


def asks_predictor(choice: SignalChoice) -> bool:
    """Whether the signals hold what g says, or an opinion that sees it."""
    return bool(chosen_parts(choice)[0] & {"predictor", "opinion"})


def chosen_parts(choice: SignalChoice) -> tuple[set[str], tuple[Callable[[Rows], Any], ...]]:
    """Return the named parts of a choice, and its functions."""
    several = choice if isinstance(choice, Sequence) and not isinstance(choice, str) else [choice]
    for part in several:
        if not callable(part) and not (isinstance(part, str) and part in ("all", *PARTS)):
            raise ValueError(
                "signals must be 'all', 'x', 'predictor', 'opinion', a function of X, or a list of "
                f"these; got {part!r}."
            )
    names: set[str] = {part for part in several if isinstance(part, str)}
    functions = tuple(part for part in several if callable(part))
    if not several:
        raise ValueError("signals is an empty list; use 'all', or name what the engine sees.")
    if not names - {"opinion"} and not functions:
        raise ValueError(
            "'opinion' needs other signals beside it, for instance signals=['x', 'opinion']; got "
            f"{choice!r}."
        )
    return set(PARTS) if "all" in names else names, functions


def _checked(values: Any, X: Rows, names: Sequence[Any] = ()) -> FloatArray:
    """Return columns as finite or missing floats, one row per row of X; the first have names."""
    try:
        S = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a function in signals must return a float matrix, one row per row of X; got a "
            f"{type(values).__name__} that is none ({error}). Turn text into numbers, and a sparse "
            "matrix into a dense one."
        ) from error
    if S.ndim != 2 or len(S) != n_rows(X) or not S.shape[1]:
        raise ValueError(
            f"signals must give one row of numbers per row of X, shape ({n_rows(X)}, d); "
            f"got {S.shape}. A single column is values[:, None]."
        )
    infinite = np.isinf(S)
    if infinite.any():
        own = column_names(X)
        known = names or (own if len(own) == S.shape[1] else [])
        at = np.flatnonzero(infinite.any(axis=0)).tolist()
        columns = [known[j] if j < len(known) else j for j in at]
        raise BadRowsError(
            f"infinity in the columns {columns}",
            np.flatnonzero(infinite.any(axis=1)),
            "engines need finite or missing values. Replace it, for instance by NaN.",
        )
    return S
