"""The model in use, how it scores requests, and how a reload replaces it."""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from locuscore import ArchiveError, Column, Scorer, read_manifest
from locuscore._protocols import Rows
from locuscore.service._json_rows import Columns, as_kind, example_columns, scored_rows

Load = Callable[..., Scorer]
Answer = dict[str, np.ndarray]
JsonRows = list[dict[str, Any]]
Count = Callable[[Answer, int, Sequence[Column]], object]
FACTS = (
    *("card", "columns", "alphas", "n_calibration", "promise", "loss", "unit", "engine"),
    *("predictor", "rows"),
)
MOST_TRIES = 5


@dataclass(frozen=True)
class Model:
    """A scorer with its manifest; the name tells two archives apart.

    Whatever it scores is counted, a batch at a time.
    """

    scorer: Scorer
    manifest: dict[str, Any]
    count: Count = field(default=lambda answer, n, columns: None, compare=False)

    def __post_init__(self) -> None:
        self.scorer.check_rows_are_enough()

    @cached_property
    def name(self) -> str:
        """Digest of the manifest, which has digests of everything else in the archive."""
        text = json.dumps(self.manifest, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``GET /model`` says."""
        names = (*FACTS, "features", "written_by")
        return {"model": self.name, **{name: self.manifest.get(name) for name in names}}

    @cached_property
    def bounds(self) -> list[str]:
        """Names of the columns of bounds, the rule's score among them where that is one."""
        rule = self.scorer.rule
        roles = {"bound"} | (
            {"score"} if rule is not None and rule.score.is_in_loss_units else set()
        )
        return [column.name for column in self.scorer.columns if column.role in roles]

    @cached_property
    def digest(self) -> str:
        """Digest of the scorer, by which a ledger knows it."""
        return self.scorer.digest

    def score_json(self, parts: Sequence[Columns]) -> list[JsonRows]:
        """Score the rows of several requests as one batch; return those of each."""
        found = self.columns(self.together(parts))
        return self.json_rows(found, [len(part[0]) for part in parts])

    def columns(self, rows: Rows) -> Answer:
        """Score a batch."""
        found = columns_of(self.scorer(rows))
        self.counted(found)
        return found

    def counted(self, found: Answer) -> None:
        """Count the rows of a batch."""
        self.count(found, len(next(iter(found.values()))), self.scorer.columns)

    def json_rows(self, found: Answer, sizes: Sequence[int]) -> list[JsonRows]:
        """Return the rows of a batch as JSON, cut into those of its requests."""
        rows, ends = scored_rows(found, self.bounds), list(accumulate(sizes, initial=0))
        return [rows[start:end] for start, end in pairwise(ends)]

    def together(self, parts: Sequence[Columns]) -> Rows:
        """Return the rows of several requests as one batch."""
        columns = [[v for part in parts for v in part[j]] for j in range(len(parts[0]))]
        return as_kind(self.scorer.schema, columns)

    @cached_property
    def probe(self) -> Any:
        """Rows that can be scored at any time: those of `fit` that the archive keeps, or made up.

        They never leave the process.
        """
        kept = self.scorer.locus.probe_
        if kept is not None:
            return kept.rows
        return as_kind(self.scorer.schema, example_columns(self.scorer))

    def score_probe(self, parts: Sequence[Any]) -> list[Answer]:
        """Score the rows of the probe, which are not counted, once for all who ask."""
        if self.scorer.asks:
            return [{} for _ in parts]
        found = columns_of(self.scorer(self.probe))
        return [found for _ in parts]

    def score_arrow(self, parts: Sequence[Any]) -> list[Any]:
        """Score Arrow tables, which are batches already: one call for each."""
        return [self.table(part) for part in parts]

    def table(self, rows: Any) -> Any:
        """Score one Arrow table."""
        scored = self.scorer(rows)
        self.counted(columns_of(scored))
        return scored


def columns_of(scored: Any) -> Answer:
    """Return what a scorer gives, a frame or a dict, as arrays by name."""
    if isinstance(scored, dict):
        return scored
    frame: nw.DataFrame[Any] = nw.from_native(scored, eager_only=True)
    return {name: frame[name].to_numpy() for name in frame.columns}


class Store:
    """Holds the model in use, and reads the archive again.

    A request takes `current` once and keeps it to its end, whatever is loaded meanwhile. With a
    key, only archives that were signed with it are loaded.
    """

    def __init__(
        self,
        source: str | Path | Scorer,
        load: Load = Scorer.load,
        key: bytes | None = None,
        count: Count | None = None,
    ) -> None:
        self._path = None if isinstance(source, Scorer) else Path(source)
        self._load = load if key is None else partial(load, key=key)
        self._key = key
        self._made = Model if count is None else partial(Model, count=count)
        if isinstance(source, Scorer):
            self.current = self._made(source, source.manifest)
        else:
            self.current = _read(Path(source), self._load, key, self._made)

    @property
    def path(self) -> Path | None:
        """The archive, if there is one."""
        return self._path

    @property
    def has_file(self) -> bool:
        """Whether there is an archive to load again."""
        return self._path is not None

    def read(self) -> Model:
        """Return what the archive holds now; the present model stays in use."""
        if self._path is None:
            raise ValueError("the service was started with a scorer in memory, not with a file.")
        return _read(self._path, _apart(self._load), self._key, self._made)


def _apart(load: Load) -> Load:
    """Return a load that leaves the model in use alone.

    Weights of torch are put into the module that is given, and the model in use has that one.
    """
    if not isinstance(load, partial) or not hasattr(load.keywords.get("predictor"), "modules"):
        return load
    try:
        # In one go: signals may read a layer of the same module.
        return partial(load.func, *load.args, **copy.deepcopy(load.keywords))
    except Exception as error:  # a predictor may hold anything
        raise ArchiveError(
            f"weights cannot be loaded beside those in use: the predictor, a "
            f"{type(load.keywords['predictor']).__name__}, cannot be copied; start the service "
            "again."
        ) from error


def _read(path: Path, load: Load, key: bytes | None, made: Callable[..., Model]) -> Model:
    """Return scorer and manifest of the same file, even if it is replaced in between."""
    for _ in range(MOST_TRIES):
        before = path.stat()
        model = made(load(path), read_manifest(path, key))
        after = path.stat()
        if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
            return model
    raise OSError(f"{path} is replaced faster than it can be read.")
