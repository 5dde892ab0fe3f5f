"""Locus: the estimator that wires loss, split, signals, engine, gamma and calibration."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from locuscore._inputs.cluster_hints import warn_of_clusters
from locuscore._inputs.losses import Loss, resolve_loss, resolve_support
from locuscore._inputs.opinion import Labelled
from locuscore._inputs.outputs import Outputs, realised_losses
from locuscore._inputs.predictor import check_predictor
from locuscore._inputs.probe import PROBE_ROWS, Probe
from locuscore._inputs.signals import SignalChoice, asks_predictor, fit_signals
from locuscore._inputs.split import some_rows, split_rows
from locuscore._inputs.used_rows import Labels, UsedRows
from locuscore._laws.distribution import Floor
from locuscore._laws.gamma import check_phi, fit_gamma
from locuscore._laws.loss_model import LossModel
from locuscore._laws.signed_errors import fit_engine
from locuscore._protocols import (
    CalibrationChoice,
    FloatArray,
    GammaModel,
    IntArray,
    LossEngine,
    Part,
    Rows,
)
from locuscore._row_card import RowCard, timed
from locuscore._row_plans import ROWS_OF_PARTS
from locuscore._row_time import RowTime
from locuscore._rules.held_out import MOST_REFERENCE_ROWS
from locuscore._shared.checks import (
    check_loss_size,
    check_losses,
    check_methods,
    check_same_order,
    check_unit,
)
from locuscore._shared.fork import make_forks_safe
from locuscore._shared.frames import as_array, n_rows, name_of
from locuscore._shared.labels import column_or_labels, label_codes
from locuscore._shared.progress import now
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore._shared.targets import as_targets
from locuscore.calibration._all_rows import AllRows, Learned, UsesAllRows
from locuscore.calibration._choice import refuse_others, with_params
from locuscore.calibration._marginal import Marginal, resolve_calibration
from locuscore.draws import smallest_scale
from locuscore.engines import resolve_engine

make_forks_safe()  # whoever fits or scores may fork afterwards


class Locus(RowCard, RowTime, BaseEstimator):
    """A calibrated upper bound on the loss of each single prediction of a fixed predictor.

    `fit` splits the labelled rows into D1 and D2, models the distribution of the loss on D1 and
    calibrates it on D2. For new rows exchangeable with those of D2, ``P(Z <= loss_bound(X, alpha))
    >= 1 - alpha`` then holds in finite samples, for every predictor, engine and data distribution
    (Theorem 1).

    Parameters
    ----------
    predictor
        A fitted object with ``predict``, a function of X, or ``prediction_column(name)``. It is
        never fitted or changed here, and `clone` keeps it by reference. It must not have been
        trained on the rows given to `fit`. None if there are only logged losses (`fit_losses`).
    loss
        None means ``"absolute"``, but `fit` refuses None for a classifier. Otherwise
        a name, such as ``"absolute"``, ``"zero_one"``, ``"euclidean"`` or ``"iou"``; a loss with
        parameters, such as ``pinball(level)``, ``cost(matrix)`` or ``cost_per_unit(over, under)``;
        or a function ``(y_true, y_pred) -> z``. The page on losses has them all.
    engine
        A model of the loss, see `locuscore.engines`, or the name of one with its usual settings,
        such as ``"flow"``; None for the default, a `Forest`; ``"auto"`` for the best of several on
        D1 (`engines.Auto`).
    signals
        What the engine sees: ``"x"`` (x alone, the paper's setting), ``"predictor"`` (g(x) and the
        spread of g's members, or what a classifier says), ``"opinion"`` (a second opinion on g,
        learned on D1), ``"all"`` (these three), a function of X that returns a float matrix, or a
        list of these: ``["all", embedding]`` adds columns, while a function alone replaces them.
    gamma
        None for the average of the engine's draws, or a model such as `KNNGamma` for their
        envelope.
    calibration
        For which new rows the promise is made, see `locuscore.calibration`; None for `Marginal`,
        rows exchangeable with those of D2. `CrossFit` suits few rows: it has no D2.
    support
        Values the loss can take: a tuple (low, high), or a set or list of values. None for the
        loss's own.
    calibration_size
        Share (float) or number (int) of rows in D2, or the positions of these rows. None for half
        of the rows until that is 100, then a quarter until that is 500, then an eighth. If `fit` is
        given clusters, whole ones are drawn and counted instead of rows.
    random_state
        Seed of the split and the engine.
    unit
        Unit of the losses, such as ``"dollars"``, which cards, reports and plots show.

    Attributes
    ----------
    predictor_, engine_, gamma_, signals_, loss_, support_, unit_
        The fitted parts.
    selection_
        How the engines compared on D1, for ``engine="auto"``; otherwise None.
    calibration_
        What was learned from D2: turns alpha into a level per row.
    tails_
        ``P(Z >= z | x)`` of the rows of D2, ascending: all that calibration needs.
    fit_rows_, calibration_rows_
        Positions of D1 and D2 in the rows given to `fit`; after `recalibrate`, D2 is all rows given
        to that.
    n_labelled_
        Number of rows given to `fit` or, later, to `recalibrate`.
    fit_signals_, fit_losses_, fit_errors_
        Signals (n1, d), losses and signed errors (or None) of D1, on which `certify` plans. The
        second opinion is out of fold; `row_signals` would show rows an opinion that knows them.
    calibration_inputs_, calibration_signals_, calibration_losses_, calibration_clusters_
        Rows, signals (n2, d), losses and codes of the clusters (or None) of D2, kept so that
        `certify` and `certify_groups` need no other rows. Without a D2, as with `CrossFit`, there
        are none, and no `fit_signals_`.
    schema_
        Kind of the rows given to `fit`, and name and type of each column.
    target_name_
        Name of the y given to `fit`, None where it has none.
    n_outputs_
        Number of predictions per row; 0 without a predictor.
    used_rows_
        Digests of the rows of `fit`, to recognise them where fresh rows are needed.
    probe_
        At most 32 rows of D1 with the predictor's answers, to recognise another predictor; None
        without a predictor to ask.
    reference_signals_
        Signals of at most 1,000 random rows of D1, as if they were new: thresholds for `certify`
        where scores tie.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    fit_seconds_
        How long `fit` took; no archive has it.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=1000)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, y)
    >>> safe, risky = locus.loss_bound([[0.5, 0.1], [0.5, 0.9]], alpha=0.1)
    >>> bool(safe < risky)
    True
    """

    def __init__(
        self,
        predictor: Any = None,
        *,
        loss: str | Loss | Callable[[Any, Any], Any] | None = None,
        engine: LossEngine | str | None = None,
        signals: SignalChoice = "all",
        gamma: GammaModel | None = None,
        calibration: CalibrationChoice | None = None,
        support: Any = None,
        calibration_size: float | int | ArrayLike | None = None,
        random_state: Any = None,
        unit: str | None = None,
    ) -> None:
        self.predictor = predictor
        self.loss = loss
        self.engine = engine
        self.signals = signals
        self.gamma = gamma
        self.calibration = calibration
        self.support = support
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.unit = unit

    def __sklearn_clone__(self) -> Self:
        # The predictor is deployed: a clone that lost its fit would be useless.
        params = self.get_params(deep=False)
        predictor = params.pop("predictor")
        return type(self)(predictor, **{k: clone(v, safe=False) for k, v in params.items()})

    def set_params(self, **params: Any) -> Self:
        """Set parameters as in scikit-learn, also those of the calibration, such as its k.

        ``set_params(calibration__k=5)`` gives this `Locus` another choice of calibration, and
        leaves the object that was passed as it is.
        """
        prefix = "calibration__"
        own = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        super().set_params(**{k: v for k, v in params.items() if not k.startswith(prefix)})
        if own:
            self.calibration = with_params(self.calibration, own)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "calibration_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    @timed
    def fit(
        self,
        X: Rows,
        y: ArrayLike,
        *,
        clusters: ArrayLike | str | None = None,
        target: Rows | None = None,
        **others: Any,
    ) -> Self:
        """Compute the predictor's losses on labelled rows, model them on D1, calibrate on D2.

        `clusters` has one label per row where rows come in clusters (days, patients, customers),
        or is the name of a column of X, which stays among the features. Whole clusters then go to
        D1 or to D2, and the promise is for a random row of a random new cluster; see
        `locuscore.calibration.ClusterRows` for all rows of new clusters. `target` are unlabelled
        rows of the mix to calibrate for, see `locuscore.calibration.Shifted`.
        """
        refuse_others(others)
        X = self._check_rows(X, reset=True)
        check_predictor(self.predictor)
        plan = self._resolve(X, clusters, target)
        self.target_name_ = name_of(y)
        outputs = Outputs.of(self.predictor_, X, for_signals=asks_predictor(self.signals))
        z = realised_losses(self.loss_, outputs, y)
        return self._fit(plan, outputs, z, as_targets(y), "y")

    @timed
    def fit_losses(
        self,
        X: Rows,
        z: ArrayLike,
        *,
        clusters: ArrayLike | str | None = None,
        target: Rows | None = None,
        **others: Any,
    ) -> Self:
        """Fit from losses that were logged with their rows; no loss function is called.

        They must lie in the support of `loss`, which is non-negative by default. If they can be
        negative, declare another `support`. `clusters` and `target` are those of `fit`.
        """
        refuse_others(others)
        X = self._check_rows(X, reset=True)
        check_same_order(X=X, z=z)
        if self.predictor is not None:
            check_predictor(self.predictor)
        plan = self._resolve(X, clusters, target)
        self.target_name_ = None
        losses = check_losses(as_array(z), n_rows(X), "z")
        outputs = Outputs.of(self.predictor_, X, for_signals=asks_predictor(self.signals))
        return self._fit(plan, outputs, losses, losses, "losses")

    def _resolve(self, X: Rows, clusters: ArrayLike | str | None, target: Rows | None) -> "Plan":
        """Check all parameters before anything is learned."""
        self.predictor_ = self.predictor  # a later set_params must not mix two predictors
        self.loss_ = resolve_loss(self.loss)
        self.support_ = resolve_support(self.support, self.loss_.support)
        self.unit_ = check_unit(self.unit)
        resolve_engine(self.engine)
        if self.gamma is not None:
            check_methods(self.gamma, ["fit", "predict"], "gamma")
            check_phi(self.gamma)
        clusters = column_or_labels(X, clusters)
        check_same_order(X=X, clusters=clusters)
        codes = None if clusters is None else label_codes(clusters, n_rows(X), "clusters")[1]
        choice = resolve_calibration(self.calibration)
        choice.check(X, codes, target)
        if isinstance(choice, UsesAllRows) and self.calibration_size is not None:
            raise ValueError(
                f"{type(choice).__name__} calibrates with all rows; leave calibration_size out."
            )
        return Plan(choice, codes, target)

    def _fit(
        self, plan: "Plan", outputs: Outputs, z: FloatArray, labels: np.ndarray, kind: Labels
    ) -> Self:
        check_loss_size(self.support_.check(z))
        self.n_labelled_ = len(z)
        if self.predictor_ is not None and asks_predictor(self.signals):
            now("asking the predictor")
            outputs.ask_all()  # once, before the rows are taken apart
        split_seed, *seeds, cal_seed = spawn_seeds(self.random_state, 5)
        if isinstance(plan.choice, UsesAllRows):
            return self._fit_all(plan.choice, outputs, z, labels, kind, (split_seed, seeds[1]))
        split = split_rows(len(z), self.calibration_size, split_seed, plan.clusters)
        self.fit_rows_, self.calibration_rows_ = split
        on_fit, on_cal = (outputs.take(rows) for rows in split)
        z_fit, z_cal = (z[rows] for rows in split)
        y_fit = labels[self.fit_rows_] if kind == "y" else None
        c_fit, c_cal = (None if plan.clusters is None else plan.clusters[rows] for rows in split)
        learned = self._learn(on_fit, z_fit, y_fit, (seeds[0], seeds[2]), c_fit)
        self.signals_, self.fit_signals_ = learned.signals, learned.fit_signals
        self.fit_losses_, self.fit_errors_ = z_fit, learned.errors
        model = learned.model
        self.engine_, self.gamma_, self.floor_ = model.engine, model.gamma, model.floor
        self.selection_ = getattr(self.engine_, "selection_", None)
        self._keep_some(learned, on_fit, seeds[1])
        now(f"calibrating on {len(z_cal):,} rows")
        self.calibration_losses_, self.calibration_signals_ = z_cal, self.signals_(on_cal)
        self.calibration_inputs_ = on_cal.X
        self.calibration_clusters_ = c_cal
        tails = model.tails(self.calibration_signals_, z_cal)
        if plan.clusters is None and isinstance(plan.choice, Marginal):
            warn_of_clusters(outputs.X, self.calibration_rows_, tails)
        fit, cal = (
            Part(partial(getattr, part, "X"), rows, S, clusters=codes)
            for part, rows, S, codes in (
                (on_fit, self.fit_rows_, self.fit_signals_, c_fit),
                (on_cal, self.calibration_rows_, self.calibration_signals_, c_cal),
            )
        )
        cal = replace(cal, tails=tails)
        self.calibration_ = plan.choice.calibrate(fit, cal, plan.target, cal_seed)
        self.used_rows_: UsedRows | None = UsedRows.of(
            outputs.X, labels, kind, split, np.sort(tails), z
        )
        return self

    def _fit_all(
        self,
        choice: UsesAllRows,
        outputs: Outputs,
        z: FloatArray,
        labels: np.ndarray,
        kind: Labels,
        seeds: tuple[int, int],
    ) -> Self:
        """Fit without D2: all rows model the loss, and all rows calibrate."""

        def learn(rows: IntArray, seeds: tuple[int, int]) -> Learned:
            y = labels[rows] if kind == "y" else None
            return self._learn(outputs.take(rows), z[rows], y, seeds)

        seed, some_seed = seeds
        for name in ROWS_OF_PARTS:  # of an earlier fit, with a D2
            self.__dict__.pop(name, None)
        rows = AllRows(outputs, z, learn, resolve_engine(self.engine), self.gamma)
        found = choice.fit_all(rows, seed)
        self.fit_rows_, self.calibration_rows_ = np.arange(len(z)), found.calibration_rows
        self.signals_, model = found.signals, found.model
        self.engine_, self.gamma_, self.floor_ = model.engine, model.gamma, model.floor
        self.selection_ = getattr(self.engine_, "selection_", None)
        self._keep_probe(outputs, some_seed)
        some = some_rows(len(z), MOST_REFERENCE_ROWS, some_seed)
        self.reference_signals_ = self.signals_(outputs.take(some))
        # Any two halves are compared with new rows as D1 and D2 are.
        half = np.array_split(np.random.default_rng(some_seed).permutation(len(z)), 2)
        tails = found.calibration.tails
        self.used_rows_ = UsedRows.of(outputs.X, labels, kind, (half[0], half[1]), tails, z)
        self.calibration_ = found.calibration
        return self

    def _learn(
        self,
        outputs: Outputs,
        z: FloatArray,
        y: np.ndarray | None,
        seeds: tuple[int, int],
        clusters: IntArray | None = None,
    ) -> "Learned":
        """Signals, engine and gamma of some rows: all that is a function of D1 alone."""
        engine_seed, opinion_seed = seeds
        known = replace(Labelled.of(self.loss_, outputs, z, y), clusters=clusters)
        now(f"signals of {len(z):,} rows")
        signals, S = fit_signals(self.signals, outputs, known, opinion_seed)
        floor = Floor(float(z.max()), smallest_scale(z) / smallest_scale(np.ones(1)))
        engine = seeded(resolve_engine(self.engine), engine_seed)
        errors = known.signed(signals.error_column)
        spread = signals.spread_column(outputs)
        now(f"{type(engine).__name__} on {len(z):,} rows")
        fit_engine(engine, S, z, errors, spread, signals.class_law, clusters)
        gamma = None
        if self.gamma is not None:
            gamma = fit_gamma(self.gamma, engine, S, partial(signals.columns, S.shape[1]))
        model = LossModel(engine, gamma, self.support_, floor)
        return Learned(signals, S, model, errors, spread)

    def _keep_some(self, learned: Learned, on_fit: Outputs, seed: int) -> None:
        """Keep a few rows of D1: to recognise the predictor, and as thresholds for `certify`."""
        self._keep_probe(on_fit, seed)
        # Scores of new rows can only tie with those of rows that see the same models.
        signals, S = learned.signals, learned.fit_signals
        some = some_rows(len(S), MOST_REFERENCE_ROWS, seed)
        self.reference_signals_ = signals.as_of_new_rows(S[some], on_fit.take(some))

    def _keep_probe(self, on_fit: Outputs, seed: int) -> None:
        few = on_fit.take(some_rows(len(on_fit), PROBE_ROWS, seed))
        self.n_outputs_, self.probe_ = few.n_outputs, Probe.of(few)


@dataclass(frozen=True, eq=False)
class Plan:
    """How rows are calibrated: the choice, and what `fit` was given for it."""

    choice: CalibrationChoice
    clusters: IntArray | None
    target: Rows | None
