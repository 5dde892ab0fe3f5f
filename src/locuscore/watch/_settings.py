"""What is fixed when a scorer is first logged: the rules of the tests, and who gets a label."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any, Self

from locuscore._shared.checks import check_between, check_numbers
from locuscore._shared.shown import Shown

DAY = timedelta(days=1)


@dataclass(frozen=True, repr=False)
class WatchSettings(Shown):
    """How a deployment is watched; it cannot change after the first decision.

    Parameters
    ----------
    audit
        Chance with which an accepted row is drawn for its label. 1 if every row gets one.
    audit_flagged
        The same for flagged rows. None if nobody knows which of them are labelled, which is the
        default unless all rows are; then only claims about accepted rows are tested.
    age
        How old a row is when it is tested, with the label that it has by then.
    delta
        Chance of ever raising an alarm while all promises are kept, for all claims together.
    run_length
        Rows that pass on average, at least, before a detector calls although all is well.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from locuscore.watch import WatchSettings
    >>> settings = WatchSettings(audit=0.1, age=timedelta(days=14))
    >>> settings.delta, settings.audit_flagged
    (0.05, None)
    """

    audit: float = 1.0
    audit_flagged: float | None = None
    age: timedelta = timedelta(days=7)
    delta: float = 0.05
    run_length: float = 50_000.0

    def __post_init__(self) -> None:
        if self.audit_flagged is None and self.audit == 1.0:
            object.__setattr__(self, "audit_flagged", 1.0)
        for name in ("audit", "audit_flagged"):
            value = getattr(self, name)
            if value is not None and not 0 < check_numbers(value, name) <= 1:
                raise ValueError(f"{name} is a chance above 0 and at most 1; got {value!r}.")
        if not isinstance(self.age, timedelta) or self.age < timedelta():
            raise ValueError(
                f"age is a time that is not negative, such as timedelta(days=7); got {self.age!r}."
            )
        check_between(self.delta, "delta")
        if not 1 < check_numbers(self.run_length, "run_length") < math.inf:
            raise ValueError(f"run_length is a number of rows above 1; got {self.run_length!r}.")

    @property
    def chance_flagged(self) -> float:
        """Chance with which flagged rows are drawn, whether or not anybody labels them then."""
        return self.audit if self.audit_flagged is None else self.audit_flagged

    @property
    def least(self) -> float:
        """The chance to which all rows are thinned, so that each had the same."""
        return min(self.audit, self.chance_flagged)

    def to_dict(self) -> dict[str, Any]:
        """The settings in the types JSON has; the age in days."""
        found = asdict(self)
        return {"age_days": found.pop("age") / DAY, **found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The settings that `to_dict` described."""
        given = {**data}
        given["age"] = timedelta(days=given.pop("age_days"))
        names = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in names})
