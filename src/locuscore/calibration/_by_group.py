"""ByGroup: a promise for every group of rows, where rows of different groups are not alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from locuscore._laws.calibration import (
    BaseCalibration,
    check_tails,
    conformal_rank,
    coverage_p_value,
    coverage_urn,
    smallest_n,
)
from locuscore._protocols import Calibration, FloatArray, IntArray, Part, Rows
from locuscore._shared.checks import check_count, check_same_order
from locuscore._shared.frames import n_rows
from locuscore._shared.kept import Kept
from locuscore.calibration._choice import Choice
from locuscore.calibration._overlap import OverlapCalibration, check_sets, codes_of
from locuscore.calibration._row_labels import (
    Groups,
    RowLabels,
    as_labels,
    count_labels,
    told_by,
)
from locuscore.calibration._sentences import bounds_are, pool_sentence, shown_list
from locuscore.calibration._sorted_blocks import SortedBlocks

MOST_LEVELS = 100  # alphas whose levels are kept at hand


@dataclass(frozen=True, eq=False, repr=False)
class ByGroup(Choice):
    """Calibrate every group of rows: ``P(Z <= U | group) >= 1 - alpha`` in each of them.

    Groups that do not overlap have their own level each, from their own rows of D2: the k-th
    largest tail of its ``n_g`` rows with ``k = conformal_rank(n_g, alpha)``. Given the group of the
    new row, it is exchangeable with these rows, so Theorem 1 holds within the group. The coverage
    is ``k / (n_g + 1)`` where tails do not tie.

    A group with too few rows in D2 for alpha has an infinite bound, and there is a warning that
    names such groups. A label that `fit` has not seen, or that is missing in a new row, has an
    infinite bound too; with a pool, it has that of the pool.

    Several columns make groups that overlap: each value of each column is a group, and so are all
    rows. Then every set of groups that a row can be in has its own level, and each group keeps the
    promise (conditional calibration of Gibbs, Cherian and Candes, exact and without randomisation).
    It is one-sided: coverage may be higher. Levels belong to a grid of alphas from 0.001 to 0.99; a
    value between has the level of the next lower one, and `Locus.exceedance` gives values of the
    grid. There are at most 1,000 sets. All combinations are solved if these are not more, otherwise
    those that occur in `fit`, and a row of another set has an infinite bound.

    Parameters
    ----------
    by
        The name of a column of a frame, or the position of one in an array; a function of X that
        gives one label per row; or an array of labels, one for each row given to `fit`, and then
        ``groups=`` is needed wherever rows are scored. Labels are text, numbers, true or false, or
        dates. A list of at most six columns or functions makes groups that overlap.
    pool_below
        Groups with fewer rows than this in D1 share one pool, and so do labels that D1 lacks. The
        promise is then for the pool, a random row of all its groups, and not for each of them. None
        for no pool. As the pool depends on D1 alone, D2 does not choose who is in it.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.calibration import ByGroup
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(size=1000), rng.integers(2, size=1000)])
    >>> y = X[:, 0] + (1 + 2 * X[:, 1]) * rng.normal(size=1000)
    >>> locus = Locus(lambda X: X[:, 0], calibration=ByGroup(1), random_state=0).fit(X, y)
    >>> calm, wild = locus.loss_bound([[0.5, 0], [0.5, 1]], alpha=0.1)
    >>> bool(calm < wild)
    True
    """

    by: Any
    pool_below: int | None = None

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Read the labels of all rows, and refuse what gives no groups."""
        if self.pool_below is not None:
            check_count(self.pool_below, "pool_below", least=2)
        if clusters is not None:
            raise ValueError(
                "fit was given clusters, but ByGroup takes the rows of a group as independent of "
                "each other; leave out clusters=, or calibrate without groups."
            )
        if target is not None:
            raise ValueError(
                "fit was given a target sample, which ByGroup has no use for; leave it out, or "
                "pass calibration=Shifted()."
            )
        told = self._told()
        if told.told:
            every = told.read(X)
        else:
            check_same_order(X=X, groups=self.by)
            every = [as_labels(self.by, n_rows(X), "by")]
        for place, labels in enumerate(every):
            self._check_labels(labels, told.name(place))
        if len(every) > 1 and self.pool_below is None:
            check_sets(len(set(zip(*every, strict=True))))

    def _check_labels(self, labels: list[Any], name: str) -> None:
        counts = count_labels(labels, name)
        n, largest = len(labels), max(counts.values())
        if len(counts) == 1:
            raise ValueError(
                f"all rows have the same label in {name}, so there is one group; leave "
                "calibration= out, or pass another column."
            )
        if self.pool_below is None and 2 * len(counts) > n:
            raise ValueError(
                f"{name} has {len(counts)} different labels in {n} rows, and a group needs several "
                "rows; pass a column of fewer values, a function that bins them, or pool_below=."
            )
        if self.pool_below is not None and largest < self.pool_below:
            raise ValueError(
                f"no group of {name} has {self.pool_below} rows, so all would be in the pool; the "
                f"largest has {largest}. Pass a smaller pool_below."
            )

    def calibrate(self, fit: Part, cal: Part, target: Rows | None, seed: int) -> Calibration:
        """Levels by group from the tails of D2; D1 decides which groups are in the pool."""
        told = self._told()
        if told.told:
            on_fit, on_cal = told.read(fit.X), told.read(cal.X)
        else:
            every = as_labels(self.by, len(fit.positions) + len(cal.positions), "by")
            on_fit, on_cal = ([[every[i] for i in part.positions]] for part in (fit, cal))
        groups = tuple(
            Groups.of(count_labels(a, told.name(j)), count_labels(b, told.name(j)), self.pool_below)
            for j, (a, b) in enumerate(zip(on_fit, on_cal, strict=True))
        )
        codes = codes_of(groups, on_cal)
        if len(groups) == 1:
            return GroupCalibration.of(cal, codes[:, 0], groups[0], told)
        return OverlapCalibration.of(cal, codes, codes_of(groups, on_fit), groups, told)

    def _told(self) -> RowLabels:
        is_array = hasattr(self.by, "__array__") and not isinstance(self.by, str | np.generic)
        return RowLabels(()) if is_array else told_by(self.by)


@dataclass(frozen=True, eq=False, repr=False)
class GroupCalibration(BaseCalibration):
    """A level for each group, from the tails of its own rows (Theorem 1 within the group).

    `codes` has the group of each of the `tails`. An entry of a row is the code of its group.
    """

    ARCHIVE = Kept(
        "ByGroup",
        fields=("told", "names"),
        numbers=("tails", "codes"),
        single=("pool_below", "n_pooled"),
    )

    tails: FloatArray
    codes: IntArray
    groups: Groups
    labels: RowLabels

    @classmethod
    def of(cls, cal: Part, codes: IntArray, groups: Groups, labels: RowLabels) -> Self:
        """Calibration on the tails of some rows."""
        if cal.tails is None:
            raise ValueError("rows without tails cannot calibrate.")
        order = np.argsort(cal.tails, kind="stable")
        return cls(cal.tails[order], codes[order], groups, labels)

    @property
    def reads(self) -> Callable[[Rows], np.ndarray] | None:
        """Codes of the groups, from the rows; None where the caller passes labels."""
        return self._read if self.labels.told else None

    def _read(self, X: Rows) -> IntArray:
        return self.groups.codes(self.labels.read(X)[0])

    @property
    def asks(self) -> str | None:
        """``groups`` where `fit` was given labels as an array."""
        return None if self.labels.told else "groups"

    def entries(self, given: Any, n: int) -> np.ndarray:
        """Codes of the groups, from labels that the caller passes."""
        return self.groups.codes(as_labels(given, n, "groups"))

    @property
    def lacks(self) -> str | None:
        """``groups`` where they are told by a function that an archive could not hold."""
        return "groups" if self.labels.lacks else None

    def with_function(self, function: Callable[[Rows], Any]) -> Self:
        """The same calibration with the function that tells groups."""
        labels = self.labels.with_functions(function)
        return type(self)(self.tails, self.codes, self.groups, labels)

    def again(self, cal: Part) -> Self:
        """Levels from other rows; the pool stays what D1 made it."""
        if self.labels.told:
            found = self.labels.read(cal.X)[0]
        else:
            found = as_labels(cal.given, len(cal.positions), "groups")
        groups = self.groups.with_names(count_labels(found, self.labels.name(0)))
        return self.of(cal, groups.codes(found), groups, self.labels)

    @cached_property
    def _blocks(self) -> SortedBlocks:
        return SortedBlocks(self.tails, self.codes, len(self.groups))

    @property
    def sizes(self) -> IntArray:
        """Number of calibration rows of each group."""
        return self._blocks.sizes

    @cached_property
    def _levels(self) -> dict[float, FloatArray]:
        return {}

    def _levels_at(self, alpha: float) -> FloatArray:
        """Level of each group at alpha; they are kept, since every block of rows asks again."""
        known = self._levels.get(alpha)
        if known is None:
            ranks = np.array([conformal_rank(int(n), alpha) for n in self.sizes])
            known = self._blocks.kth_largest(ranks)
            if len(self._levels) >= MOST_LEVELS:
                self._levels.clear()
            self._levels[alpha] = known
        return known

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None) -> FloatArray:
        """The k-th largest tail of the row's group, k = conformal_rank(n_g, alpha), or 0.

        It is 0 where ``k > n_g``.
        """
        shares = np.ravel(alpha)
        table = np.column_stack([self._levels_at(float(share)) for share in shares])
        return table[_known(rows)].reshape(-1, *np.shape(alpha))

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None) -> FloatArray:
        """``(1 + #{i in the row's group : tail_i <= survival}) / (n_g + 1)``."""
        code = _known(rows)[:, None]
        counted = self._blocks.at_most(survival, code)
        return np.asarray((1.0 + counted) / (self.sizes[code] + 1.0), dtype=np.float64)

    def n_unknown(self, entries: np.ndarray) -> int:
        """Rows of a group without calibration rows."""
        return int(np.sum(self.sizes[entries] == 0))

    @property
    def entry_labels(self) -> Sequence[Any] | None:
        """Names of the groups, and None for all others."""
        return (*self.groups.names, None)

    @property
    def n_entries(self) -> int:
        """One entry for each group, and one for all others."""
        return len(self.groups)

    def urns(self, alpha: float) -> Mapping[Any, tuple[int, int]] | None:
        """One urn for each group, and one for all others: the pool, if there is one."""
        return {
            name: coverage_urn(int(n), alpha)
            for name, n in zip((*self.groups.names, None), self.sizes, strict=True)
        }

    def group_p_value(self, alpha: float, n_new: IntArray, covered: IntArray) -> tuple[float, int]:
        """p-value of "the promise holds in every group", and the number of groups it is from.

        `n_new` and `covered` count the new rows of each group, and those within their bound. Given
        the group, the latter is beta-binomial (Theorem 1); the smallest p-value of m groups is
        multiplied by m. Groups without rows, or without a finite bound, are not tested.
        """
        p_values = [
            coverage_p_value(int(n), alpha, int(m), int(k))
            for n, m, k in zip(self.sizes, n_new, covered, strict=True)
            if m and conformal_rank(int(n), alpha) <= n
        ]
        return min(1.0, len(p_values) * min(p_values, default=1.0)), len(p_values)

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Name the groups that have too few rows for alpha; None if there is none."""
        needed = smallest_n(alpha)
        own = np.flatnonzero(self.sizes[:-1] < needed).tolist()
        is_pool_small = self.groups.n_pooled > 0 and self.sizes[-1] < needed
        small = own + ([self.groups.others] if is_pool_small else [])
        if not small:
            return None
        found = [f"{self.groups.shown(code)} ({self.sizes[code]})" for code in small]
        of = f"{len(small)} of {len(self.groups.names) + (self.groups.n_pooled > 0)} groups"
        return (
            f"there are too few calibration rows for alpha = {alpha:g} in {of} by "
            f"{self.labels.name(0)}, so {bounds_are(top)} there: {shown_list(found)}. At least "
            f"{needed} are needed in a group; ByGroup(by, pool_below=...) lets small groups share "
            "a pool."
        )

    def sentence(self, alphas: Sequence[float]) -> str:
        """Theorem 1 in every group."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        own = self.sizes[:-1]
        pool = pool_sentence(self.groups, int(self.sizes[-1]))
        if not len(own):
            return f"{pool} The share above the bound is at most alpha = {shares} there."
        text = (
            f"In each of the {len(own)} groups by {self.labels.name(0)}, over new rows "
            f"exchangeable with the group's {own.min(initial=self.n)} to {own.max(initial=0)} "
            f"calibration rows, the loss exceeds its bound for at most the share alpha = {shares}, "
            "on average over the draw of these rows (Theorem 1 in the group)."
        )
        if self.groups.pool_below is None:
            return f"{text} A row of any other group has no finite bound."
        return f"{text} {pool}"

    def to_parts(self) -> dict[str, Any]:
        """What an archive keeps: tails with their groups, and how groups are told."""
        parts = {"tails": self.tails, "codes": self.codes, "told": self.labels.to_part()}
        return parts | {"pool_below": self.groups.pool_below} | self.groups.to_parts()

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if its codes are those of its groups."""
        groups = Groups.from_parts(*(parts[name] for name in ("names", "pool_below", "n_pooled")))
        tails, codes = check_tails(parts["tails"]), np.asarray(parts["codes"])
        if codes.dtype.kind not in "iu" or codes.shape != tails.shape or not len(tails):
            raise ValueError("its calibration rows have no group each")
        # Without a pool, every label of D2 has a group of its own.
        highest = groups.others - (groups.pool_below is None)
        if codes.min() < 0 or codes.max() > highest:
            raise ValueError("its calibration rows are in groups that it does not name")
        labels = RowLabels.from_part(parts["told"])
        if len(labels.told) > 1:
            raise ValueError("its groups do not overlap, but are told by several columns")
        return cls(tails, codes.astype(np.int64), groups, labels)


def _known(rows: np.ndarray | None) -> np.ndarray:
    if rows is None:
        raise ValueError("levels by group need the group of each row.")
    return rows
