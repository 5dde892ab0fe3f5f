"""How a class says what an archive keeps of its objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kept:
    """What an archive keeps of the objects of a class: the value of its attribute ``ARCHIVE``.

    Only attributes named here are written and read, and, of a scikit-learn estimator, its
    parameters that are plain values. An object is made without calling its constructor, and filled
    with these attributes. A class whose attributes have no safe format defines
    ``to_parts(self) -> dict``, which gives other values under the names declared here, and the
    class method ``from_parts(cls, parts)``, which makes the object from them.

    A file is not trusted: it may hold anything of the right kind under each name. What compiled
    code will follow without looking, or what decides how much memory a row takes, is to be checked
    in ``from_parts`` or before it is used.

    Parameters
    ----------
    kind
        The name of the class in archives, which later versions must keep.
    fields
        Attributes that are arrays, models of scikit-learn, LightGBM or xgboost, objects of classes
        with an ``ARCHIVE`` of their own, plain values, or lists, tuples and dicts of these.
    numbers
        Attributes that are arrays of numbers, or None. A file with anything else there is refused:
        in arrays of texts or objects, one value may be as large as the file.
    single
        Attributes that are one plain value each: a number, a text, a truth value or None. A file
        with anything else there is refused, so that no array can multiply the size of another.
    later
        Those among these that archives of earlier versions lack.
    holds
        Classes of objects in `fields` that occur nowhere else, so that `Scorer.load` need not be
        given them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from locuscore import Kept
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     ARCHIVE = Kept("Line", single=("slope", "start"))
    ...     slope: float
    ...     start: float
    """

    kind: str
    fields: Sequence[str] = ()
    single: Sequence[str] = ()
    later: Sequence[str] = ()
    holds: Sequence[type] = ()
    numbers: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("fields", "single", "later", "holds", "numbers"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} are several names, such as ({value!r},); got one text.")
            object.__setattr__(self, name, tuple(value))
        n_names = len(set(self.fields)) + len(set(self.single)) + len(set(self.numbers))
        if not set(self.later) <= self.names or n_names > len(self.names):
            raise ValueError(
                f"of {self.kind}, each name stands in one of fields, numbers and single, and those "
                "in later also in one of these."
            )

    @property
    def names(self) -> set[str]:
        """Everything that is kept, parameters aside."""
        return {*self.fields, *self.numbers, *self.single}


def kept_of(kind: type) -> Kept | None:
    """Return what a class itself declares; a subclass may hold more, so it declares for itself."""
    declared: Any = vars(kind).get("ARCHIVE")
    return declared if isinstance(declared, Kept) else None
