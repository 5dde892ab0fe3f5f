"""The scorer that answers, and its exchange for another."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from locuscore._archive.container import read_manifest
from locuscore._scorer import Scorer
from locuscore._shared.frames import as_frame
from locuscore.service._rows import Columns, as_kind

Load = Callable[..., Scorer]
Answer = dict[str, np.ndarray]
FACTS = ("card", "columns", "alphas", "n_calibration", "loss", "engine", "predictor", "rows")
MOST_TRIES = 5


@dataclass(frozen=True)
class Model:
    """A scorer with its manifest; the name tells two archives apart."""

    scorer: Scorer
    manifest: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """Digest of the manifest, which has digests of everything else in the archive."""
        text = json.dumps(self.manifest, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``GET /model`` says."""
        kept = {name: self.manifest.get(name) for name in FACTS}
        more = {name: self.manifest.get(name) for name in ("features", "written_by")}
        return {"model": self.name, **kept, **more}

    @cached_property
    def bounds(self) -> list[str]:
        """Names of the columns of bounds, the rule's score among them where that is one."""
        rule = self.scorer.rule
        roles = {"bound"} | (
            {"score"} if rule is not None and rule.score.is_in_loss_units else set()
        )
        return [column.name for column in self.scorer.columns if column.role in roles]

    @cached_property
    def json_rows(self) -> "JsonRows":
        """Scores rows that came as JSON."""
        return JsonRows(self.scorer)

    @cached_property
    def arrow_rows(self) -> "ArrowRows":
        """Scores Arrow tables."""
        return ArrowRows(self.scorer)


@dataclass(frozen=True, eq=False)
class JsonRows:
    """The rows of several requests as one batch."""

    scorer: Scorer

    def score(self, parts: Sequence[Columns]) -> list[Answer]:
        """Return the columns of each part."""
        together = [[v for part in parts for v in part[j]] for j in range(len(parts[0]))]
        found = columns_of(self.scorer(as_kind(self.scorer.schema, together)))
        ends = np.cumsum([len(part[0]) for part in parts])[:-1]
        pieces = {name: np.split(values, ends) for name, values in found.items()}
        return [{name: piece[i] for name, piece in pieces.items()} for i in range(len(parts))]


@dataclass(frozen=True, eq=False)
class ArrowRows:
    """Arrow tables, which are batches already: one call for each."""

    scorer: Scorer

    def score(self, parts: Sequence[Any]) -> list[Any]:
        """Return one table for each."""
        return [self.scorer(part) for part in parts]


def columns_of(scored: Any) -> Answer:
    """Return what a scorer gives, a frame or a dict, as arrays by name."""
    frame = as_frame(scored) if not isinstance(scored, dict) else None
    if frame is None:
        return dict(scored)
    return {name: _array(frame[name]) for name in frame.columns}


def _array(series: nw.Series[Any]) -> np.ndarray:
    return np.asarray(series.to_numpy())


class Store:
    """Holds the model in use; `reload` puts the archive's present contents in its place.

    Who has taken `current` keeps a whole model, whatever is loaded meanwhile. With a key, only
    archives that it has signed are loaded.
    """

    def __init__(
        self, source: str | Path | Scorer, load: Load = Scorer.load, key: bytes | None = None
    ) -> None:
        self._path = None if isinstance(source, Scorer) else Path(source)
        self._load = load if key is None else partial(load, key=key)
        self._key = key
        self._one_at_a_time = threading.Lock()
        if isinstance(source, Scorer):
            self.current = Model(source, source.manifest)
        else:
            self.current = _read(Path(source), self._load, key)

    @property
    def has_file(self) -> bool:
        """Whether there is an archive to load again."""
        return self._path is not None

    def reload(self) -> Model:
        """Load the archive again; if that fails, the model in use stays."""
        if self._path is None:
            raise ValueError("the service was started with a scorer in memory, not with a file.")
        with self._one_at_a_time:
            self.current = _read(self._path, self._load, self._key)
            return self.current


def _read(path: Path, load: Load, key: bytes | None) -> Model:
    """Read manifest and scorer of one and the same file, though it may be replaced meanwhile."""
    for _ in range(MOST_TRIES):
        before = path.stat()
        model = Model(load(path), read_manifest(path, key))
        after = path.stat()
        if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
            return model
    raise OSError(f"{path} is replaced faster than it can be read.")
