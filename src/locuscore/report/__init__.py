"""The report: what a scorer does on labelled rows, as a page for people and as JSON.

`report` takes rows in memory, `report_batches` a stream of any length.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from locuscore import Scorer
from locuscore._shared.checks import check_same_order
from locuscore._shared.files import write_atomically
from locuscore._shared.frames import as_array, as_batch, column, column_names, n_rows, take_rows
from locuscore._shared.labels import read_labels
from locuscore._shared.progress import now, spinner
from locuscore._shared.seeds import spawn_seeds
from locuscore._shared.shown import call_text, cut
from locuscore._shared.targets import as_targets
from locuscore.report._card import report_card
from locuscore.report._compare import Comparison, compare
from locuscore.report._money import Costs
from locuscore.report._provenance import Provenance
from locuscore.report._summary import Summary
from locuscore.report._verdict import verdict_lines

__all__ = [
    "Batch",
    "Comparison",
    "Costs",
    "Provenance",
    "Report",
    "compare",
    "report",
    "report_batches",
]

PILOT_ROWS = 2_000


class Batch(NamedTuple):
    """Labelled rows of a stream: true values y or losses; groups, clusters and weights if any.

    `by` has further groups by their name, and `time` the day of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.report import Batch
    >>> batch = Batch(np.zeros((2, 3)), y=[1.0, 2.0], groups=["north", "south"])
    >>> len(batch.y)
    2
    """

    X: Any
    y: ArrayLike | None = None
    losses: ArrayLike | None = None
    groups: ArrayLike | None = None
    clusters: ArrayLike | None = None
    weights: ArrayLike | None = None
    by: Mapping[str, ArrayLike] | None = None
    time: ArrayLike | None = None

    def __repr__(self) -> str:
        return call_text(self, {k: v for k, v in self._asdict().items() if v is not None})


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A summary of a scorer on labelled rows, which can be written as a page or as JSON.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.report import report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:300], y[100:300])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> found = report(scorer, X[300:], y[300:])
    >>> path = Path(mkdtemp(), "report.html")
    >>> found.write(path)
    >>> path.exists()
    True
    """

    summary: dict[str, Any]
    _written: Path | None = field(default=None, init=False)  # where the page is, if anywhere

    def to_html(self) -> str:
        """The page: one file that needs nothing else."""
        from locuscore.report._html import page  # noqa: PLC0415 - JSON does not need the templates

        return page(self.summary)

    def to_json(self) -> str:
        """The summary as JSON; null stands for infinity."""
        return json.dumps(self.summary, allow_nan=False)

    def write(self, path: str | Path) -> None:
        """Write the page; complete, or the old file is untouched."""
        _write(path, self.to_html())
        object.__setattr__(self, "_written", Path(path).absolute())  # a notebook's card links it

    def write_json(self, path: str | Path) -> None:
        """Write the summary as JSON."""
        _write(path, self.to_json())

    def __str__(self) -> str:
        title = f"{self.summary['title']}: {self.summary['n_rows']:,} test rows."
        return "\n".join([title, *self.verdict_lines])

    @property
    def verdict_lines(self) -> list[str]:
        """The verdict and each claim it rests on, as lines of text."""
        return verdict_lines(self.summary["verdict"])

    @property
    def is_broken(self) -> bool:
        """Whether the rows contradict anything that the scorer promises, or cannot judge it."""
        return bool(self.summary["verdict"]["broken"])

    def __repr__(self) -> str:
        title, n = cut(str(self.summary["title"]), 80), self.summary["n_rows"]
        return f"Report({title!r}, {n:,} test rows)\n  {cut(self.verdict_lines[0], 180)}"

    def _repr_html_(self) -> str:
        return report_card(self.summary, self._written)


def report(
    scorer: Scorer,
    X: Any,
    y: ArrayLike | None = None,
    *,
    losses: ArrayLike | None = None,
    groups: ArrayLike | str | Sequence[str] | Mapping[str, ArrayLike] | None = None,
    time: ArrayLike | str | None = None,
    clusters: ArrayLike | str | None = None,
    weights: ArrayLike | str | None = None,
    tau: float | None = None,
    title: str = "Locus report",
    unit: str = "",
    noun: str = "rows",
    archive: str = "guard.locus",
    costs: Costs | None = None,
    provenance: Provenance | None = None,
    created: datetime.date | None = None,
    random_state: int | None = 0,
    allow_rows_used_in_fit: bool = False,
) -> Report:
    """Report what a scorer does on labelled rows that had no part in fitting it.

    Parameters
    ----------
    scorer
        A `Scorer`, with or without a rule.
    X, y
        Rows with the columns of `fit`, and their true values.
    losses
        The losses of the rows, instead of y.
    groups
        One label per row, or the name of a column of X: what is promised is shown for each group.
        A `GroupRule` without a column takes them too. Names of several columns, or a mapping from
        names to labels, take the rows apart in several ways, with intervals that hold together.
    time
        The day of each row, or the name of a column of X with dates: the same over time.
    clusters
        One label per row, or the name of a column of X, for a scorer that was fitted with clusters:
        its claims are tested by whole clusters, which must not be those of `fit`.
    weights
        One number per row, or the name of a column of X, for a scorer whose weights were given to
        `calibration.Shifted` as an array. The rows must come from the mix that the weights are for.
    tau
        A tolerance that the page counts at exactly, besides that of the rule.
    title
        Title of the page.
    unit
        What losses are measured in, such as "dollars"; by default the unit of the `Locus`.
    noun
        What the rows are, in the plural, such as "homes"; sentences call them so.
    archive
        Name of the scorer's archive in the commands that the page offers.
    costs
        Unit costs; the page then weighs the cost of review against what it can save.
    provenance
        Where rows and scorer come from, and who approved the report.
    created
        Date on the page; None for today.
    random_state
        Seed of samples and of the attribution.
    allow_rows_used_in_fit
        Judge the claims on rows that were used to fit, which proves nothing; the page says so. By
        default no claim is judged on them.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.report import report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1500, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=1500)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000])
    >>> found = report(Scorer(locus), X[1000:], y[1000:])
    >>> found.is_broken
    False
    >>> found.summary["verdict"]["claims"][0]["verdict"]
    'kept'
    """
    rows = as_batch(X)[0]
    name, labels, by = _partitions(rows, groups)
    time_name = time if isinstance(time, str) else str(getattr(time, "name", None) or "time")
    time, clusters, weights = (
        column(rows, part) if isinstance(part, str) else part for part in (time, clusters, weights)
    )
    batch = _in_order(Batch(rows, y, losses, labels, clusters, weights, by, time))
    return report_batches(
        scorer,
        [batch],
        pilot=[_some(batch, spawn_seeds(random_state, 1)[0])],
        group_name=name,
        time_name=time_name,
        tau=tau,
        title=title,
        unit=unit,
        noun=noun,
        archive=archive,
        costs=costs,
        provenance=provenance,
        created=created,
        random_state=random_state,
        allow_rows_used_in_fit=allow_rows_used_in_fit,
    )


def _partitions(rows: Any, groups: Any) -> tuple[str, Any, dict[str, Any] | None]:
    """Name and labels of the first groups, and further ones by their names."""
    if groups is None:
        return "group", None, None
    if isinstance(groups, str):
        return groups, column(rows, groups), None
    is_short = isinstance(groups, list | tuple) and len(groups) != n_rows(rows)
    if is_short and all(name in column_names(rows) for name in groups):
        groups = {name: column(rows, name) for name in groups}
    if isinstance(groups, Mapping) and groups:
        (name, first), *others = groups.items()
        return str(name), first, {str(other): labels for other, labels in others} or None
    return str(getattr(groups, "name", None) or "group"), groups, None


def report_batches(
    scorer: Scorer,
    batches: Iterable[Batch | tuple[Any, ...]],
    *,
    pilot: Sequence[Batch] | None = None,
    group_name: str = "group",
    time_name: str = "time",
    tau: float | None = None,
    title: str = "Locus report",
    unit: str = "",
    noun: str = "rows",
    archive: str = "guard.locus",
    costs: Costs | None = None,
    provenance: Provenance | None = None,
    created: datetime.date | None = None,
    random_state: int | None = 0,
    allow_rows_used_in_fit: bool = False,
) -> Report:
    """As `report`, for a stream of batches (X, y), in memory that does not grow with it.

    Counts are exact over all rows; pictures of more than 100,000 rows show a sample. Only with
    clusters does memory grow, by 14 bytes per row. `pilot` are a
    few thousand rows like all of them: the grid of tolerances goes through their losses. Without
    it the first batches with 2,000 rows or more serve, so a stream should not be sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.report import report_batches
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:300], y[100:300])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> batches = [(X[300:350], y[300:350]), (X[350:], y[350:])]
    >>> report_batches(scorer, batches).summary["n_rows"]
    100
    """
    if not isinstance(scorer, Scorer):
        raise TypeError(
            "a report is about a Scorer, such as Scorer(locus) or Scorer(locus, rule); got "
            f"{type(scorer).__name__}."
        )
    stream = (_in_order(Batch(*batch)) for batch in batches)
    first: list[Batch] = []
    if pilot is None:
        first, pilot = _first_rows(stream)
    seen = Summary(
        scorer,
        pilot,
        group_name=group_name,
        time_name=time_name,
        tau=tau,
        random_state=random_state,
        allow_rows_used_in_fit=allow_rows_used_in_fit,
    )
    with spinner("report"):
        for batch in chain(first, stream):
            now(f"{seen.n_rows:,} rows done")
            seen.add(*batch)
        now("counts, curves and what drives the bounds")
        return Report(
            seen.finish(
                title=title,
                unit=unit,
                noun=noun,
                archive=archive,
                costs=costs,
                provenance=provenance,
                created=created,
            )
        )


def _in_order(batch: Batch) -> Batch:
    """Return the batch; its parts must not have the same row labels in different orders."""
    parts = batch._asdict()
    further = parts.pop("by") or {}
    check_same_order(**parts, **{f"groups {name}": labels for name, labels in further.items()})
    return batch


def _first_rows(stream: Iterator[Batch]) -> tuple[list[Batch], list[Batch]]:
    """The batches that hold the first 2,000 rows, and these rows alone, however a stream is cut."""
    batches, found, room = [], [], PILOT_ROWS
    while room > 0 and (batch := next(stream, None)) is not None:
        batches.append(batch)
        found.append(_taken(batch, slice(0, room)))
        room -= n_rows(as_batch(batch.X)[0])
    return batches, found


def _some(batch: Batch, seed: int) -> Batch:
    """At most 2,000 rows of a batch, at random."""
    n = n_rows(batch.X)
    at = np.sort(np.random.default_rng(seed).permutation(n)[:PILOT_ROWS])
    return batch if n <= PILOT_ROWS else _taken(batch, at)


def _taken(batch: Batch, rows: Any) -> Batch:
    X = as_batch(batch.X)[0]
    y, losses = (None if part is None else as_targets(part)[rows] for part in batch[1:3])
    labels, n = None, n_rows(X)
    if batch.groups is not None:  # of any type, so no array of one type
        labels = np.fromiter(read_labels(batch.groups, n), dtype=object, count=n)[rows]
    weights = None if batch.weights is None else as_array(batch.weights)[rows]
    return Batch(take_rows(X, rows), y, losses, labels, None, weights)


def _write(path: str | Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))
