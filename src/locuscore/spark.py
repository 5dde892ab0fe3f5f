"""Scores a Spark frame with the batch function that scores everything else."""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from locuscore import Scorer
from locuscore._shared.optional import require

require("pyspark", extra="spark")
pa = require("pyarrow", extra="spark")

from pyspark import TaskContext, cloudpickle  # noqa: E402 - after the check
from pyspark.sql import DataFrame  # noqa: E402 - after the check
from pyspark.sql.functions import col  # noqa: E402 - after the check
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: E402 - after the check

__all__ = ["score_frame"]

Batches = Iterable[Any]
SPLIT_FROM = 2**18  # bytes of a frame from which scoring takes longer than moving its rows
ENOUGH_ROWS, ENOUGH_BYTES = 2**15, 2**25  # of a batch to score; more gain nothing
# Parts of a plan that decide how many partitions there are; an adaptive plan has a shuffle in it.
CHOSEN = ("Exchange", "Adaptive", "Coalesce", "ExistingRDD")


@dataclass(frozen=True)
class Parcel:
    """A pickled scorer that every Python process opens once, packed: trees shrink to a quarter."""

    data: bytes
    n_bytes: int

    @classmethod
    def of(cls, scorer: Scorer) -> "Parcel":
        """Pack a scorer."""
        data = cloudpickle.dumps(scorer)  # type: ignore[no-untyped-call]  # it has no types
        return cls(pa.compress(data, codec="zstd", asbytes=True), len(data))

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer itself."""
        scorer: Scorer = pickle.loads(pa.decompress(self.data, self.n_bytes, codec="zstd"))
        if TaskContext.get() is not None:
            # A Python process of Spark looks for garbage after each task. What the scorer and its
            # libraries hold stays as long as the process, and is not looked through again.
            gc.collect()
            gc.freeze()
        return scorer


def score_frame(scorer: Scorer, df: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
    """Score the rows of a Spark frame, lazily, some Arrow batches at a time.

    The scorer is pickled once and broadcast, so it is sent once to each executor, and each Python
    process there unpickles it once. Spark Connect has no broadcasts, so there it is sent with every
    task. The executors need locuscore and the packages of the predictor, in the driver's versions.
    If Spark repeats a task, it gives the same numbers. Rows that are read in fewer partitions than
    there are cores, as those of one file, are spread over all of them first. A frame whose
    partitions you chose, or that a join or a grouping has just spread, stays as it is.

    Parameters
    ----------
    scorer
        A scorer that can be pickled; it may contain your own functions.
    df
        A frame with the columns of `fit`, in any order, and possibly others. If `fit` was given an
        array, all columns except those to keep are used, by position.
    keep
        Columns of `df` to pass through, in front of the columns of `scorer`.

    Returns
    -------
    DataFrame
        The kept columns, then those of `scorer`, in order. Spark decides the order of the rows, so
        keep a key to join by.

    Examples
    --------
    ::

        scored = score_frame(scorer, df, keep=["id"])
        scored.write.parquet("scored")
    """
    scorer.check_rows_are_enough()
    features = _features(scorer, df, keep)
    taken = [*features, *(name for name in keep if name not in features)]
    # mapInArrow does not take names with dots, so columns travel by number.
    quoted = (f"`{name.replace('`', '``')}`" for name in taken)
    chosen = df.select(*(col(name).alias(f"c{j}") for j, name in enumerate(quoted)))
    arrow = to_arrow_schema(chosen.schema).empty_table().rename_columns(taken).schema
    schema = _result_schema(scorer, arrow, features, keep)
    score = _scoring(_sent(df, Parcel.of(scorer.without_rows())), taken, features, list(keep))
    return _spread(chosen).mapInArrow(score, from_arrow_schema(schema))


def _spread(df: DataFrame) -> DataFrame:
    """Give each core a share of the rows, if they come straight from a source with few partitions.

    Nothing is run to find that out: the partitions of such a plan are those of its source.
    """
    context = getattr(df.sparkSession, "sparkContext", None)
    if context is None:  # Spark Connect does not show its plans
        return df
    query: Any = df._jdf.queryExecution()  # Java's own
    wanted = int(context.defaultParallelism)
    if not _is_as_read(query.executedPlan()):
        return df
    if int(query.optimizedPlan().stats().sizeInBytes()) < SPLIT_FROM:
        return df
    given = int(query.executedPlan().execute().getNumPartitions())
    return df.repartition(wanted) if given < wanted else df


def _is_as_read(plan: Any) -> bool:
    """Whether the partitions are those in which a file or table is read."""
    while not any(word in plan.nodeName() for word in CHOSEN):
        children = plan.children()
        if children.size() != 1:
            return bool(children.isEmpty()) and "Scan" in plan.nodeName()
        plan = children.apply(0)
    return False


def _sent(df: DataFrame, parcel: Parcel) -> Callable[[], Scorer]:
    """Return what gives an executor the scorer."""
    context = getattr(df.sparkSession, "sparkContext", None)  # Spark Connect has none
    if context is None:
        return lambda: parcel.scorer
    shared = context.broadcast(parcel)
    return lambda: shared.value.scorer


def _features(scorer: Scorer, df: DataFrame, keep: Sequence[str]) -> list[str]:
    unknown = [name for name in keep if name not in df.columns]
    if unknown:
        raise ValueError(f"the frame has no columns {unknown} to keep; it has {df.columns}.")
    schema = scorer.schema
    if schema.kind == "array":
        names = [name for name in df.columns if name not in keep]
        if len(names) != len(schema.names):
            raise ValueError(
                f"expected {len(schema.names)} columns besides those to keep, as in fit; got "
                f"{names}."
            )
        return names
    missing = [name for name in schema.names if name not in df.columns]
    if missing:
        raise ValueError(f"the columns are not those of fit; missing: {missing}.")
    return [str(name) for name in schema.names]


def _result_schema(scorer: Scorer, arrow: Any, features: list[str], keep: Sequence[str]) -> Any:
    """Columns to keep, then what the scorer makes of a batch without rows."""
    empty = arrow.empty_table().select(features)
    scored = scorer(empty).schema
    doubled = [name for name in scored.names if name in keep]
    if doubled:
        raise ValueError(f"rename the columns {doubled} to keep them; the scorer gives such ones.")
    # Labels that are text have no type as long as there are none.
    types = [pa.string() if pa.types.is_null(kind) else kind for kind in scored.types]
    given = [pa.field(name, kind) for name, kind in zip(scored.names, types, strict=True)]
    return pa.schema([*(arrow.field(name) for name in keep), *given])


def _gathered(batches: Batches) -> Iterator[Any]:
    """Join consecutive batches: Spark sends 10,000 rows at a time, and more are cheaper each."""
    waiting: list[Any] = []
    n_rows = n_bytes = 0
    for batch in batches:
        waiting.append(batch)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
        if n_rows >= ENOUGH_ROWS or n_bytes >= ENOUGH_BYTES:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, n_rows, n_bytes = [], 0, 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _scoring(
    opened: Callable[[], Scorer], taken: list[str], features: list[str], keep: list[str]
) -> Callable[[Batches], Iterator[Any]]:
    def score(batches: Batches) -> Iterator[Any]:
        scorer = opened()
        for batch in _gathered(batches):
            named = batch.rename_columns(taken)
            scored = scorer(named.select(features))
            kept = named.select(keep)
            names = [*keep, *scored.schema.names]
            yield pa.RecordBatch.from_arrays([*kept.columns, *scored.columns], names=names)

    return score
