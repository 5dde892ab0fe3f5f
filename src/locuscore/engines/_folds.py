"""Laws of an engine for rows it has not seen, inside D1."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from locuscore._laws.distribution import LossDistribution
from locuscore._laws.signed_errors import SignedErrors, fit_engine
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.folds import Folds, make_folds

MOST_ROWS = 1_000

Law = LossDistribution  # the average of the draws, before any support


@dataclass(frozen=True)
class Fold:
    """The rows of D1 left out of one fit, and their laws."""

    rows: IntArray
    law: Law


def fold_laws(
    engine: Any,
    S: FloatArray,
    z: FloatArray,
    cv: int,
    seed: int,
    errors: SignedErrors | None = None,
    clusters: IntArray | None = None,
) -> Iterable[Fold]:
    """Yield the folds of an engine; the same seed gives the same rows to every engine.

    Clusters stay whole. Laws are given for at most `MOST_ROWS` evenly spaced rows of each fold:
    enough to compare by.
    """
    if cv < 2:
        raise ValueError(f"cv must be at least 2 folds; got {cv}.")
    folds = make_folds(len(z), cv, seed, clusters)
    return _laws(engine, S, z, folds, errors, clusters)


def _laws(
    engine: Any,
    S: FloatArray,
    z: FloatArray,
    folds: Folds,
    errors: SignedErrors | None,
    clusters: IntArray | None,
) -> Iterator[Fold]:
    for kept, out in folds:
        told = None if errors is None else errors.take(kept)
        whole = None if clusters is None else clusters[kept]
        engine_of_fold = clone(engine, safe=False)
        fitted = fit_engine(engine_of_fold, S[kept], z[kept], told, clusters=whole)
        rows = out[:: -(-len(out) // MOST_ROWS)]
        yield Fold(rows, Law(fitted.predict_draws(S[rows])))
