"""CascadeRule: several models asked in turn, a threshold for each, and a person at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.card import cascade_card, cascade_card_html, rule_text
from locuscore._rules.certificate import Certificate, certificate_from
from locuscore._rules.rule import Standing
from locuscore._shared.accepted import is_accepted
from locuscore._shared.checks import as_floats, check_numbers
from locuscore._shared.json_values import from_json, read_only, to_json
from locuscore._shared.optional import require

PARTS = ("models", "thresholds", "standing", "guarantee", "assumptions", "evidence", "table")
MOST_MODELS = 4
NO_EVIDENCE = certificate_from({})


@dataclass(frozen=True, eq=False, repr=False)
class CascadeRule:
    """Send the answer of the first model whose score is at most its threshold; else ask a person.

    Model 0 is asked first. A threshold of -inf never sends that model's answer, and an infinite
    score, of either sign, is never sent. `certify_cascade` makes it, with ``P(Z > tau | sent) <=
    eta``. `standing`, `guarantee`, `assumptions`, `certificate` and `table` are those of a
    `FlagRule`; the table has one entry per step of the path of thresholds.

    Examples
    --------
    >>> from locuscore import CascadeRule
    >>> rule = CascadeRule(("small", "large"), (0.1, 0.3), "heuristic", "None: set by hand.")
    >>> rule.choose([[0.05, 0.9], [0.5, 0.2], [0.5, 0.9]]).tolist()  # 2 is the person
    [0, 1, 2]
    """

    models: tuple[str, ...]
    thresholds: tuple[float, ...]
    standing: Standing
    guarantee: str
    assumptions: tuple[str, ...] = ()
    certificate: Certificate = NO_EVIDENCE
    table: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = check_models(self.models)
        limits = check_numbers(self.thresholds, "thresholds")
        if limits.shape != (len(names),) or np.isnan(limits).any():
            raise ValueError(
                f"thresholds must be {len(names)} numbers, one per model and none of them NaN; got "
                f"{self.thresholds!r:.100}."
            )
        if self.standing not in get_args(Standing):
            raise ValueError(
                f"standing is one of {get_args(Standing)}; got {self.standing!r:.100}."
            )
        said = (self.guarantee, *_texts(self.assumptions, "assumptions"))
        if not all(isinstance(text, str) for text in said):
            raise TypeError("guarantee and assumptions must be text.")
        if not isinstance(self.certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate; got {self.certificate!r:.100}.")
        object.__setattr__(self, "models", names)
        object.__setattr__(self, "thresholds", tuple(limits.tolist()))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "table", check_table(self.table))

    def __eq__(self, other: object) -> bool:
        # In plain types, where a missing number equals itself.
        return isinstance(other, CascadeRule) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.models, self.thresholds, self.standing, self.guarantee))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings can be neither pickled nor copied.
        return type(self).from_dict, (self.to_dict(),)

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The numbers behind the guarantee by name, read-only."""
        return MappingProxyType(self.certificate.evidence)

    @property
    def accepts_nothing(self) -> bool:
        """Whether every question goes to a person."""
        return all(limit == -np.inf for limit in self.thresholds)

    def choose(self, scores: ArrayLike) -> IntArray:
        """Which model's answer is sent, for each row of scores (n, models): 0, 1, ...

        The number of models stands for the person. A score may be missing (NaN) where an earlier
        model's answer is sent, since a later one is then not asked.
        """
        check_same_models(scores, self.models)
        values = as_floats(scores, "scores")
        if values.ndim != 2 or values.shape[1] != len(self.models):
            raise ValueError(
                f"scores must have one column for each of {', '.join(self.models)}, in this order; "
                f"got shape {values.shape}."
            )
        chosen = first_to_answer(values, self.thresholds)
        # A missing score is needed if nobody before that model answered.
        lacking = np.isnan(values) & (np.arange(values.shape[1]) < chosen[:, None])
        if lacking.any():
            row, model = np.argwhere(lacking)[0]
            raise ValueError(
                f"{int(lacking.any(axis=1).sum())} rows lack a score that is needed, first the "
                f"score of {self.models[model]!r} in row {row}; no earlier model answers there."
            )
        return chosen

    def accepts(self, scores: ArrayLike) -> BoolArray:
        """Whether any model's answer is sent, for each row of scores (n, models)."""
        return np.asarray(self.choose(scores) < len(self.models))

    def __str__(self) -> str:
        return cascade_card(self)

    def __repr__(self) -> str:
        return rule_text(self, ", ".join(self.models) + ", else a person", self.evidence)

    def _repr_html_(self) -> str:
        return cascade_card_html(self)

    def to_frame(self) -> Any:
        """The steps that were tried, one row each, as a pandas frame."""
        return require("pandas", extra="demo").DataFrame(dict(self.table))

    def to_dict(self) -> dict[str, Any]:
        """The rule in the types JSON has; infinite numbers are the strings "inf" and "-inf"."""
        described: dict[str, Any] = to_json({name: getattr(self, name) for name in PARTS})
        return described

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The rule that `to_dict` described."""
        if not isinstance(data, Mapping) or set(data) != set(PARTS):
            raise ValueError(f"a cascade is described by {sorted(PARTS)}; got {data!r:.200}.")
        values = {key: from_json(value) for key, value in data.items()}
        evidence = values.pop("evidence")
        if not isinstance(evidence, Mapping):
            raise TypeError(f"evidence must be a mapping; got {evidence!r:.100}.")
        return cls(**values, certificate=certificate_from(read_only(evidence)))


def first_to_answer(scores: FloatArray, thresholds: Sequence[float] | FloatArray) -> IntArray:
    """Position of the first model whose score is at most its threshold; their number if none."""
    finite = np.where(scores == -np.inf, np.inf, scores)  # of either sign: never accepted
    sent = is_accepted(finite, np.asarray(thresholds))
    return np.where(sent.any(axis=1), sent.argmax(axis=1), scores.shape[1])


def check_models(models: Any) -> tuple[str, ...]:
    """Return the names of at most `MOST_MODELS` models, all different."""
    names = _texts(models, "models")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"models must have different names, as text; got {models!r:.100}.")
    if not 1 <= len(names) <= MOST_MODELS:
        raise ValueError(f"a cascade has 1 to {MOST_MODELS} models; got {len(names)}.")
    return names


def check_same_models(scores: Any, models: Sequence[str]) -> None:
    """Raise if a frame has the columns of the models in another order."""
    columns = getattr(scores, "columns", None)
    if columns is None or (found := [str(name) for name in columns]) == list(models):
        return
    if sorted(found) == sorted(models):
        raise ValueError(
            f"the columns of scores are {', '.join(found)}, and models are asked in the order "
            f"{', '.join(models)}; put the columns in this order."
        )


def check_table(table: Any) -> Mapping[str, tuple[float, ...]]:
    """Return a read-only table of numbers, with columns of one length."""
    if not isinstance(table, Mapping):
        raise TypeError(f"table must be a mapping; got {table!r:.100}.")
    columns: Mapping[str, Any] = read_only(table)
    for name, column in columns.items():
        is_numeric = isinstance(column, tuple) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in column
        )
        if not isinstance(name, str) or not is_numeric:
            raise TypeError(f"a column of the table must hold numbers; {name!r:.100} does not.")
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("the columns of the table must have one length.")
    return columns


def _texts(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of text; got {value!r:.100}.")
    return tuple(value)
