"""Engine selection: cross-validated CRPS and pinball loss, inside D1."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from locuscore._laws.calibration import calibrated_level
from locuscore._laws.signed_errors import SignedErrors, fit_engine
from locuscore._protocols import FloatArray, IntArray, LossDraws, LossEngine
from locuscore._shared.cards import Card, Table
from locuscore._shared.checks import LocusWarning, check_alpha, check_methods
from locuscore._shared.kept import Kept
from locuscore._shared.progress import progress_bar
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore._shared.shown import cut
from locuscore.engines._ensemble import Ensemble
from locuscore.engines._folds import Fold, fold_laws
from locuscore.engines._forest import Forest
from locuscore.engines._quantile import QuantileGrid
from locuscore.engines._scale import Scale
from locuscore.metrics._bounds import pinball_by_row
from locuscore.metrics._distributions import crps_by_row

N_LEVELS = 50  # knots of the CRPS: its error is far below the differences between engines


@dataclass(frozen=True, repr=False)
class EngineSelection:
    """A comparison of engines: one record per candidate, best first, and the winner, unfitted.

    A record holds `name`, `crps` and `pinball` with their standard errors `crps_se` and
    `pinball_se`, `seconds`, and `error`: why the candidate was left out, or None.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Gaussian, Scale, select_engine
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> found = select_engine([Scale(), Gaussian()], S, z, cv=2, random_state=0)
    >>> sorted(record["name"] for record in found.table)
    ['Gaussian()', 'Scale()']
    """

    table: tuple[dict[str, Any], ...]
    winner: Any

    def __repr__(self) -> str:
        best = self.table[0]
        rest = f"{len(self.table)} engines, best {cut(best['name'], 100)!r}"
        return f"EngineSelection({rest}, CRPS {best['crps']:.4g}, pinball {best['pinball']:.4g})"

    def _repr_html_(self) -> str:
        rows = [
            (record["name"], *cells, f"{record['seconds']:.1f}")
            if record["error"] is None
            else (f"{record['name']} was left out: {record['error']}", "", "", "")
            for record in self.table
            for cells in [[_mean(record, key) for key in ("crps", "pinball")]]
        ]
        table = Table(("engine", "CRPS", "pinball", "seconds"), rows, chosen=0)
        lead = "Smaller is better; +- is a standard error. All engines saw the same folds of D1."
        badge = f"{cut(self.table[0]['name'], 60)} is best"
        return Card("Comparison of engines", badge, "good", lead, table=table).html()

    def __str__(self) -> str:
        width = max(len(record["name"]) for record in self.table)
        lines = [f"{'engine':{width}}  {'CRPS':>18}  {'pinball':>18}  {'seconds':>7}"]
        for record in self.table:
            if record["error"] is not None:
                lines.append(f"{record['name']:{width}}  left out: {record['error']}")
                continue
            scores = (_mean(record, key) for key in ("crps", "pinball"))
            cells = "  ".join(f"{score:>18}" for score in scores)
            lines.append(f"{record['name']:{width}}  {cells}  {record['seconds']:7.1f}")
        return "\n".join(lines)


def select_engine(
    candidates: Sequence[LossEngine] | Mapping[str, LossEngine],
    S: FloatArray,
    z: FloatArray,
    *,
    cv: int = 3,
    alpha: float = 0.1,
    max_rows: int = 5_000,
    random_state: Any = None,
    errors: SignedErrors | None = None,
    clusters: IntArray | None = None,
) -> EngineSelection:
    """Compare engines on rows they were not fitted on; the smallest CRPS wins.

    All candidates see the same folds. The CRPS judges the whole distribution. The pinball loss
    judges the bound at `alpha` as `Locus` would give it: calibrated, here on the held-out fold
    itself, which learns one number from hundreds of rows. A candidate that raises an error is
    reported and left out.

    Pass only D1. Whatever is chosen there, the engine is a function of D1, so the rows of D2 stay
    exchangeable with new ones and Theorem 1 holds unchanged.

    Parameters
    ----------
    candidates
        Engines, as a list (named by what they print) or a dict of names.
    S, z
        Signals and losses of D1: ``locus.fit_signals_``, where the second opinion is out of fold,
        and the losses of ``locus.fit_rows_``.
    cv
        Number of folds.
    alpha
        Level of the bound that the pinball loss judges.
    max_rows
        Most rows used; beyond it, a random part.
    random_state
        Seed of the part, the folds and the engines.
    errors
        Signed errors of D1, for engines that take them; `Locus` passes them to `Auto`.
    clusters
        A code per row where rows come in clusters, which stay whole in the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Forest, Scale, select_engine
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(300, 2))
    >>> z = S[:, 0] * rng.exponential(size=300)
    >>> result = select_engine([Forest(n_trees=20), Scale()], S, z, random_state=0)
    >>> [record["name"] for record in result.table]
    ['Forest(n_trees=20)', 'Scale()']
    """
    named = _named(candidates)
    level = float(check_alpha(alpha))
    part_seed, fold_seed, *seeds = spawn_seeds(random_state, 2 + len(named))
    if len(z) > max_rows:
        rows = np.sort(np.random.default_rng(part_seed).permutation(len(z))[:max_rows])
        S, z, errors = S[rows], z[rows], None if errors is None else errors.take(rows)
        clusters = None if clusters is None else clusters[rows]
    records, pairs = [], list(zip(named.items(), seeds, strict=True))
    with progress_bar(len(pairs), of="engines compared") as advance:
        for (name, engine), seed in pairs:
            start = time.perf_counter()
            folds = fold_laws(seeded(engine, seed), S, z, cv, fold_seed, errors, clusters)
            record = {"name": name} | _score(folds, z, level)
            records.append(record | {"seconds": time.perf_counter() - start})
            advance(1)
            if record["error"] is not None:
                warnings.warn(
                    f"engine {name} is left out of the selection: {record['error']}",
                    LocusWarning,
                    stacklevel=2,
                )
    records.sort(key=lambda record: (record["error"] is not None, record["crps"]))
    if records[0]["error"] is not None:
        reasons = "; ".join(f"{record['name']}: {record['error']}" for record in records)
        raise ValueError(f"none of the candidate engines could be fitted: {reasons}")
    return EngineSelection(tuple(records), clone(named[records[0]["name"]], safe=False))


@dataclass(eq=False, repr=False)
class Auto(BaseEstimator):
    """The engine that `select_engine` prefers on D1, fitted on all of D1.

    ``Locus(engine="auto")`` uses it. Costs `cv` fits of each candidate on at most `max_rows` rows,
    and one fit of the winner.

    Parameters
    ----------
    candidates
        As in `select_engine`; None for `Forest` and its equal mixtures with `QuantileGrid` and
        with `QuantileGrid` and `Scale`.
    cv, alpha, max_rows
        As in `select_engine`.
    random_state
        Seed of the selection and of the winner.

    Attributes
    ----------
    selection_
        The comparison; print it for a table.
    engine_
        The fitted winner.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Auto, Gaussian, Scale
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = Auto([Scale(), Gaussian()], cv=2, random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 1)
    """

    ARCHIVE = Kept("Auto", fields=("engine_",))

    candidates: Sequence[LossEngine] | Mapping[str, LossEngine] | None = None
    _: KW_ONLY
    cv: int = 3
    alpha: float = 0.1
    max_rows: int = 5_000
    random_state: Any = None

    def fit(
        self,
        S: FloatArray,
        z: FloatArray,
        errors: SignedErrors | None = None,
        clusters: IntArray | None = None,
    ) -> Self:
        """Select an engine and fit it; errors are told to engines that take them."""
        seed, engine_seed = spawn_seeds(self.random_state, 2)
        given = _default_candidates() if self.candidates is None else self.candidates
        self.selection_ = select_engine(
            given,
            S,
            z,
            cv=self.cv,
            alpha=self.alpha,
            max_rows=self.max_rows,
            random_state=seed,
            errors=errors,
            clusters=clusters,
        )
        winner = seeded(self.selection_.winner, engine_seed)
        self.engine_ = fit_engine(winner, S, z, errors, clusters=clusters)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return the laws of the winner."""
        check_is_fitted(self)
        return self.engine_.predict_draws(S)


def _default_candidates() -> dict[str, Any]:
    """Engines with several draws, so that `gamma` works whichever wins; see docs/engines.md."""
    forest, grid, scale = Forest(), QuantileGrid(), Scale()
    return {
        "Forest": forest,
        "Forest + QuantileGrid": Ensemble([forest, grid]),
        "Forest + QuantileGrid + Scale": Ensemble([forest, grid, scale]),
    }


def _named(candidates: Any) -> dict[str, Any]:
    if isinstance(candidates, Mapping):
        pairs = [(str(name), engine) for name, engine in candidates.items()]
    elif isinstance(candidates, Iterable) and not isinstance(candidates, str):
        pairs = [(" ".join(str(engine).split()), engine) for engine in candidates]
    else:
        raise TypeError(f"candidates must be a list or a dict of engines; got {candidates!r}.")
    if not pairs:
        raise ValueError("candidates is empty: give at least one engine to choose from.")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"several candidates are called {', '.join(twice)}; drop one, or pass a dict of names."
        )
    for name, engine in pairs:
        check_methods(engine, ["fit", "predict_draws"], f"candidate {name}")
    return dict(pairs)


def _score(folds: Iterable[Fold], z: FloatArray, alpha: float) -> dict[str, Any]:
    """Mean scores of one engine over its folds, with standard errors; or what went wrong."""
    try:
        parts = [_fold_scores(fold, z[fold.rows], alpha) for fold in folds]
    except Exception as error:  # whatever an engine of somebody else may raise
        text = f"{type(error).__name__}: {error}"
        empty = dict.fromkeys(("crps", "crps_se", "pinball", "pinball_se"), float("nan"))
        return empty | {"error": " ".join(text.split())}
    crps, pinball = (np.concatenate(values) for values in zip(*parts, strict=True))
    return {
        "crps": float(crps.mean()),
        "crps_se": _standard_error(crps),
        "pinball": float(pinball.mean()),
        "pinball_se": _standard_error(pinball),
        "error": None,
    }


def _fold_scores(fold: Fold, z: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """CRPS of each row, and the pinball loss of its bound, calibrated on the fold."""
    tails = fold.law.tail(z)
    if np.isnan(tails).any():
        raise ValueError("the distributions have NaN on the held-out rows")
    # A fold too small for alpha takes its smallest tail, where Locus would give an infinite bound.
    level = calibrated_level(np.sort(tails), alpha) or float(tails.min())
    bound = fold.law.isf(level)
    return crps_by_row(z, fold.law, N_LEVELS), pinball_by_row(z, bound, alpha)


def _mean(record: Mapping[str, Any], key: str) -> str:
    return f"{record[key]:.4g} +- {record[f'{key}_se']:.2g}"


def _standard_error(values: FloatArray) -> float:
    if len(values) < 2 or not np.isfinite(values).all():
        return float("nan")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
