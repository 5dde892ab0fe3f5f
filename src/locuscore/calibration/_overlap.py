"""Groups that overlap: the values of several columns, each of them a group, and all rows.

A row is in one group of every column. Its level depends on this set of groups alone, so every set
is solved once, when the calibration is made, and scoring looks it up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Self

import numpy as np

from locuscore._laws.calibration import BaseCalibration, check_tails, smallest_n
from locuscore._protocols import FloatArray, IntArray, Part, Rows
from locuscore._shared.kept import Kept
from locuscore.calibration._quantile_simplex import cutoffs
from locuscore.calibration._row_labels import Groups, RowLabels, count_labels
from locuscore.calibration._sentences import bounds_are, pool_sentence, shown_list
from locuscore.calibration._sorted_blocks import SortedBlocks

MOST_SETS = 1_000
# In thousandths: every one up to 0.05, every fifth up to 0.3, then every tenth.
ALPHAS = np.r_[1:51, 55:301:5, 310:1000:10] / 1_000
ROUNDING = 1e-9  # relative: a level lower by so much covers what ties, whatever was rounded
SMALLEST_TAIL = 1e-300
ARRAYS = ("sizes", "sets", "alphas", "levels")


def check_sets(n: int) -> None:
    """Raise if there are more sets of groups than are solved."""
    if n > MOST_SETS:
        raise ValueError(
            f"the groups of a row make {n:,} different sets, and at most {MOST_SETS:,} are solved; "
            "pass fewer columns, columns of fewer values, or pool_below= for those that are rare."
        )


def _one_hot(codes: IntArray, widths: Sequence[int]) -> FloatArray:
    """Vectors of 0 and 1: the constant, then one place for each group of each column."""
    parts = [np.eye(width)[codes[:, j]] for j, width in enumerate(widths)]
    return np.hstack([np.ones((len(codes), 1)), *parts])


def solved_levels(codes: IntArray, tails: FloatArray, sets: IntArray) -> FloatArray:
    """Levels (s, m) of sets of groups at `ALPHAS`, which never fall as alpha grows.

    The score of a row is ``-log(tail)``, so that the effects of a row's groups multiply, and no sum
    of them leaves the positive numbers. Cutoffs that are solved alpha by alpha can cross; so the
    level at alpha is the lowest at all alphas from there on, whose bound is the highest.
    """
    widths = [int(max(a.max(), b.max())) + 1 for a, b in zip(codes.T, sets.T, strict=True)]
    types, which = np.unique(codes, axis=0, return_inverse=True)
    scores = -np.log(np.maximum(tails, SMALLEST_TAIL))
    vectors, new = _one_hot(types, widths), _one_hot(sets, widths)
    found = cutoffs(vectors, which.ravel(), scores, new, ALPHAS[::-1])
    levels = np.minimum(np.exp(-found) * (1.0 - ROUNDING), 1.0)
    levels[levels <= SMALLEST_TAIL] = 0.0  # a tail of zero is covered by no other level
    return np.ascontiguousarray(np.minimum.accumulate(levels, axis=1)[:, ::-1])


@dataclass(frozen=True, eq=False, repr=False)
class OverlapCalibration(BaseCalibration):
    """A level for each set of groups, so that every group keeps the promise.

    ``P(Z > U, row in g) <= alpha P(row in g)`` for each group g of each column, and for all rows:
    the finite-sample conditional calibration of Gibbs, Cherian and Candes, on the tails, without
    randomisation (`_quantile_simplex`). The promise is one-sided: coverage may be higher, by about
    the number of groups over n in the mean.

    `sets` (s, c) are codes of groups, one for each column, in order of their numbers; `levels` (s,
    m) belong to `alphas`, which ascend. An alpha between two of them has the level of the lower
    one. `sizes` are the numbers of calibration rows of all groups, column after column. An entry of
    a row is the place of its set, or the number of sets where there is no such set.
    """

    ARCHIVE = Kept(
        "ByOverlappingGroups",
        fields=("told", "names", "n_pooled"),
        numbers=("tails", *ARRAYS),
        single=("pool_below",),
    )

    tails: FloatArray
    sizes: IntArray
    sets: IntArray
    alphas: FloatArray
    levels: FloatArray
    groups: tuple[Groups, ...]
    labels: RowLabels

    @classmethod
    def of(
        cls,
        cal: Part,
        codes: IntArray,
        other_sets: IntArray,
        groups: tuple[Groups, ...],
        labels: RowLabels,
    ) -> Self:
        """Solve all sets of groups, or, where these are too many, those that are known to occur."""
        if cal.tails is None:
            raise ValueError("rows without tails cannot calibrate.")
        sizes = [np.bincount(codes[:, j], minlength=len(one)) for j, one in enumerate(groups)]
        check_sets(max(one.others for one in groups))
        with_rows = [np.flatnonzero(one) for one in sizes]
        if prod(map(len, with_rows)) <= MOST_SETS:
            sets = np.array(list(product(*with_rows)), dtype=np.int64)
        else:
            found = np.unique(np.vstack([codes, other_sets]), axis=0)
            # Without a calibration row in one of its groups, a set has no finite bound.
            is_known = [n[column] > 0 for n, column in zip(sizes, found.T, strict=True)]
            sets = found[np.all(is_known, axis=0)]
            check_sets(len(sets))
        levels = solved_levels(codes, cal.tails, sets)
        tails = np.sort(cal.tails)
        return cls(tails, np.concatenate(sizes), sets, ALPHAS, levels, groups, labels)

    @property
    def reads(self) -> Callable[[Rows], np.ndarray] | None:
        """Places of the sets of groups that rows are in."""
        return self._read

    def _read(self, X: Rows) -> IntArray:
        key = self._numbers(codes_of(self.groups, self.labels.read(X)))
        place = np.minimum(np.searchsorted(self._known, key), len(self.sets) - 1)
        return np.where(self._known[place] == key, place, len(self.sets))

    def _numbers(self, codes: IntArray) -> IntArray:
        """One number for each set of groups, in the order of the sets."""
        widths = [len(one) for one in self.groups]
        steps = np.cumprod([1, *widths[:0:-1]])[::-1]
        return codes @ steps.astype(np.int64)

    @cached_property
    def _known(self) -> IntArray:
        return self._numbers(self.sets)

    @property
    def lacks(self) -> str | None:
        """``groups`` where some are told by a function that an archive could not hold."""
        return "groups" if self.labels.lacks else None

    def with_function(self, function: Any) -> Self:
        """The same calibration with the function, or the list of functions, that tell groups."""
        labels = self.labels.with_functions(function)
        parts = (self.tails, self.sizes, self.sets, self.alphas, self.levels, self.groups)
        return type(self)(*parts, labels)

    def again(self, cal: Part) -> Self:
        """Levels from other rows; pools stay what D1 made them."""
        found = self.labels.read(cal.X)
        groups = tuple(
            one.with_names(count_labels(values, self.labels.name(j)))
            for j, (one, values) in enumerate(zip(self.groups, found, strict=True))
        )
        # Labels that are new come after the known ones, and before the others.
        moved = [
            np.where(column == old.others, new.others, column)
            for old, new, column in zip(self.groups, groups, self.sets.T, strict=True)
        ]
        return self.of(cal, codes_of(groups, found), np.column_stack(moved), groups, self.labels)

    @cached_property
    def _table(self) -> FloatArray:
        """Levels with a column for lower alphas and a row for other sets: none is finite there."""
        return np.pad(self.levels, ((0, 1), (1, 0)))

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None) -> FloatArray:
        """Level of the row's set of groups; 0 where there is none."""
        columns = np.searchsorted(self.alphas, np.ravel(alpha), side="right")
        return self._table[:, columns][rows].reshape(-1, *np.shape(alpha))

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None) -> FloatArray:
        """The smallest of `alphas` whose level is above `survival`; 1 where there is none."""
        if rows is None:
            raise ValueError("levels by group need the groups of each row.")
        counted = self._blocks.at_most(survival, rows[:, None])
        return np.append(self.alphas, 1.0)[counted]

    @cached_property
    def _blocks(self) -> SortedBlocks:
        table = self._table[:, 1:]
        codes = np.repeat(np.arange(len(table)), table.shape[1])
        order = np.argsort(table.ravel(), kind="stable")
        return SortedBlocks(table.ravel()[order], codes[order], len(table))

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Name the groups, and sets of groups, that have too few rows; None if there is none."""
        if alpha < self.alphas[0]:
            return (
                f"overlapping groups have levels from alpha = {self.alphas[0]:g} on; at alpha = "
                f"{alpha:g}, {bounds_are(top)}."
            )
        needed, found = smallest_n(alpha), []
        is_told = np.zeros(len(self.sets), dtype=bool)
        for j, (one, sizes) in enumerate(zip(self.groups, self._sizes, strict=True)):
            for code in np.flatnonzero(sizes[: len(one) if one.n_pooled else one.others] < needed):
                found.append(f"{one.shown(int(code))} of {self.labels.name(j)} ({sizes[code]})")
                is_told |= self.sets[:, j] == code
        is_infinite = self.level(alpha, np.arange(len(self.sets))) <= 0
        for codes in self.sets[is_infinite & ~is_told]:
            shown = (one.shown(int(code)) for one, code in zip(self.groups, codes, strict=True))
            found.append(" with ".join(shown))
        if not found:
            return None
        return (
            f"there are too few calibration rows for alpha = {alpha:g} in {len(found)} groups or "
            f"sets of groups, so {bounds_are(top)} there: {shown_list(found)}. At least {needed} "
            "are needed in a group, and more where groups share most of their rows; "
            "ByGroup(by, pool_below=...) lets small groups share a pool."
        )

    def sentence(self, alphas: Sequence[float]) -> str:
        """The promise for every group."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        columns = " and ".join(self.labels.name(j) for j in range(len(self.groups)))
        n_groups = sum(one.others for one in self.groups)
        text = (
            f"In each of the {n_groups} groups by {columns}, and over all rows, the loss exceeds "
            f"its bound for at most the share alpha = {shares} of new rows exchangeable with the "
            f"{self.n} calibration rows, on average over the draw of these rows (conditional "
            f"calibration). A row {self._without_bound} has no finite bound."
        )
        pools = [
            pool_sentence(one, int(sizes[-1]), f" by {self.labels.name(j)}")
            for j, (one, sizes) in enumerate(zip(self.groups, self._sizes, strict=True))
            if one.n_pooled
        ]
        return " ".join([text, *pools])

    @property
    def _without_bound(self) -> str:
        if prod(int(np.sum(sizes > 0)) for sizes in self._sizes) == len(self.sets):
            return "of a group without calibration rows"
        return "of a group without calibration rows, or of groups that never meet in fit,"

    @cached_property
    def _sizes(self) -> list[IntArray]:
        """Numbers of calibration rows, for each column."""
        ends = np.cumsum([len(one) for one in self.groups])
        return np.split(self.sizes, ends[:-1])

    def n_unknown(self, entries: np.ndarray) -> int:
        """Rows of groups that were not solved together."""
        return int(np.sum(entries == len(self.sets)))

    def to_parts(self) -> dict[str, Any]:
        """What an archive keeps: the levels of all sets, and how groups are told."""
        return {name: getattr(self, name) for name in ("tails", *ARRAYS)} | {
            "told": self.labels.to_part(),
            "names": [list(one.names) for one in self.groups],
            "n_pooled": [one.n_pooled for one in self.groups],
            "pool_below": self.groups[0].pool_below,
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if its levels belong to its sets."""
        labels, names = RowLabels.from_part(parts["told"]), parts["names"]
        n_pooled, pool_below = parts["n_pooled"], parts["pool_below"]
        are_lists = all(isinstance(one, list) for one in (names, n_pooled))
        if not are_lists or not len(labels.told) == len(names) == len(n_pooled) >= 2:
            raise ValueError("its columns of groups have no names each")
        groups = tuple(
            Groups.from_parts(one, pool_below, n) for one, n in zip(names, n_pooled, strict=True)
        )
        sizes, sets, alphas, levels = (parts[name] for name in ARRAYS)
        found = cls(check_tails(parts["tails"]), sizes, sets, alphas, levels, groups, labels)
        found._check()
        return found

    def _check(self) -> None:
        """Raise if the arrays of an archive do not belong together."""
        widths = [len(one) for one in self.groups]
        sets, levels, alphas, sizes = self.sets, self.levels, self.alphas, self.sizes
        is_usable = (
            sets.dtype.kind == sizes.dtype.kind == "i"
            and levels.dtype == alphas.dtype == np.float64
            and sizes.shape == (sum(widths),)
            and sets.ndim == 2
            and 0 < len(sets) <= MOST_SETS >= max(widths) - 1
            and sets.shape[1] == len(widths)
            and 0 < alphas.size <= MOST_SETS
            and levels.shape == (len(sets), *alphas.shape)
        )
        if not is_usable:
            raise ValueError("its sets of groups have no levels each")
        is_sound = (
            np.all((sets >= 0) & (sets < widths))
            and np.all(np.diff(self._numbers(sets)) > 0)
            and np.all((alphas > 0) & (alphas < 1))
            and np.all(np.diff(alphas) > 0)
            and np.all((levels >= 0) & (levels <= 1))
            and np.all(np.diff(levels, axis=1) >= 0)
        )
        if not is_sound:
            raise ValueError("its sets, alphas or levels are out of range or out of order")
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Raise if groups do not have the rows of D2 among them, or sets are of groups without."""
        pairs = list(zip(self.groups, self._sizes, strict=True))
        # Each row is in one group of every column; without a pool, in one that has a name.
        in_range = np.all((self.sizes >= 0) & (self.sizes <= self.n))  # so that sums are too
        are_counts = in_range and all(
            sizes.sum() == self.n and not (one.pool_below is None and sizes[-1])
            for one, sizes in pairs
        )
        if not are_counts:
            raise ValueError("the sizes of its groups do not add up to its calibration rows")
        have_rows = [sizes[codes] > 0 for (_, sizes), codes in zip(pairs, self.sets.T, strict=True)]
        n_sets = prod(int(np.sum(sizes > 0)) for _, sizes in pairs)
        if not np.all(have_rows) or (n_sets <= MOST_SETS and len(self.sets) != n_sets):
            raise ValueError("its sets of groups are not those of its calibration rows")


def codes_of(groups: Sequence[Groups], labels: Sequence[Sequence[Any]]) -> IntArray:
    """Codes (n, c) of the groups that rows are in, from their labels of each column."""
    parts = [one.codes(values) for one, values in zip(groups, labels, strict=True)]
    return np.column_stack(parts)
