"""What a fitted Locus does as time goes on: calibrate on other rows, and adapt to a stream."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from locuscore._inputs.outputs import Outputs
from locuscore._inputs.predictor import check_asked_predictor
from locuscore._inputs.unseen import unseen_said_once
from locuscore._inputs.used_rows import RowLabels
from locuscore._laws.calibration import MarginalCalibration
from locuscore._protocols import Calibration, FloatArray, IntArray, Part, Rows
from locuscore._row_claims import RowClaims
from locuscore._row_scores import Given
from locuscore._shared.checks import check_loss_size, check_losses, check_same_order, one_alpha
from locuscore._shared.frames import as_array, n_rows
from locuscore._shared.labels import column_or_labels, label_codes
from locuscore._shared.shown import Shown
from locuscore._shared.targets import as_targets
from locuscore.calibration._fading import FadingCalibration

if TYPE_CHECKING:
    from locuscore._stream.adaptive import AdaptiveBounds


class RowTime(RowClaims):
    """The methods of `Locus` for data that change with time."""

    calibration_rows_: IntArray

    def recalibrate(
        self,
        X: Rows,
        y: ArrayLike,
        *,
        half_life: float | None = None,
        drift_per_row: float | None = None,
        alpha: float = 0.1,
        clusters: ArrayLike | str | None = None,
        groups: Any = None,
    ) -> Self:
        """Return a new `Locus`: the same loss model, calibrated on these labelled rows instead.

        The rows are the new D2: pass the window that new rows are like. Predictor and loss model
        stay as they are, and this `Locus` is not changed. The promise is the same, for rows
        exchangeable with the new D2. So after `Shifted` these rows have no weights: pass rows of
        the target.

        Rows that are clearly those of D1 are refused, since the loss model has learned from them;
        those of D2 may be used again. Rules on the old bound or exceedance are void with the new
        `Locus`, and refused. Rules on the raw tail are not: they are functions of D1.

        Parameters
        ----------
        X, y
            Labelled rows, with `half_life` in the order of time, the newest last.
        half_life
            Weights fade: a row so many rows older counts half as much. The promise then has a gap,
            which is 0 for exchangeable rows (``calibration_.sentence`` has the formula). inf gives
            equal weights. None keeps the kind of calibration.
        drift_per_row
            Where it can be declared, the most by which the distributions of two neighbouring rows
            differ in total variation; the gap is then a number. It goes with `half_life`.
        alpha
            The smallest alpha to be asked for: fading too fast for it is refused. It goes with
            `half_life`.
        clusters
            One label per row, or the name of a column, for a `Locus` fitted with clusters.
        groups
            One label per row, for groups that were given to `fit` as an array.

        Examples
        --------
        >>> import numpy as np
        >>> from locuscore import Locus
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(2000, 2))
        >>> y = X[:, 0] + np.linspace(1, 2, 2000) * rng.normal(size=2000)
        >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000])
        >>> recent = locus.recalibrate(X[1500:], y[1500:])
        >>> bool(locus.loss_bound(X[:1])[0] < recent.loss_bound(X[:1])[0])
        True
        """
        check_is_fitted(self)
        check_asked_predictor(self.predictor_)
        outputs = self.signals_.outputs(self.predictor_, self._check_rows(X))
        z = self._losses(outputs, y)
        how = Recalibration(half_life, drift_per_row, alpha, clusters, groups)
        return self._recalibrated(outputs, RowLabels(as_targets(y), z), how)

    def recalibrate_losses(self, X: Rows, z: ArrayLike, **settings: Any) -> Self:
        """Recalibrate from losses that were logged with their rows.

        The settings are the keywords of `recalibrate`.
        """
        check_is_fitted(self)
        how = Recalibration(**settings)
        X = self._check_rows(X)
        check_same_order(X=X, z=z)
        losses = self.support_.check(check_losses(as_array(z), n_rows(X), "z"))
        outputs = self.signals_.outputs(self.predictor_, X)
        return self._recalibrated(outputs, RowLabels(None, losses), how)

    def adapt(
        self,
        alpha: float | Sequence[float] | FloatArray = 0.1,
        *,
        step: float | None = None,
        window: int | None = None,
    ) -> "AdaptiveBounds":
        """Return bounds that adapt to a stream, whatever its rows: see `AdaptiveBounds`.

        In the long run a share alpha of the losses is above its bound, for every sequence of rows;
        no row has a promise of its own. One alpha, or several that adapt on their own. `step` and
        `window` say how fast.
        """
        check_is_fitted(self)
        from locuscore._stream.adaptive import AdaptiveBounds  # noqa: PLC0415 - when first used

        return AdaptiveBounds(self, alpha, step=step, window=window)

    def resume(self, state: Mapping[str, Any]) -> "AdaptiveBounds":
        """Continue a stream from its `AdaptiveBounds.state`, which may have been kept as JSON.

        This is the `Locus` that started it, or one with the same loss model.
        """
        check_is_fitted(self)
        from locuscore._stream.adaptive import AdaptiveBounds  # noqa: PLC0415 - when first used

        return AdaptiveBounds.from_state(self, state)

    def _recalibrated(self, outputs: Outputs, labels: RowLabels, how: "Recalibration") -> Self:
        z = labels.losses
        if not len(z):
            raise ValueError("recalibrate needs labelled rows; got none.")
        check_loss_size(z)
        how.check(self.calibration_)
        used = self.used_rows_
        if used is not None:
            had_d2 = self.calibration_.holds_rows_out
            used = used.recalibrated(outputs.X, labels, self.schema_, had_d2=had_d2)
        with unseen_said_once(self.schema_, outputs.X):
            S = np.vstack([part for _, _, part in self.signals_.blocks(outputs)])
        tails = self.loss_model_.tails(S, z)
        new = copy.copy(self)
        new.calibration_rows_, new.n_labelled_ = np.arange(len(z)), len(z)
        how = replace(how, clusters=column_or_labels(outputs.X, how.clusters))
        check_same_order(X=outputs.X, clusters=how.clusters, groups=how.groups)
        codes = how.cluster_codes(len(z))
        cal = Part(outputs.X, new.calibration_rows_, S, tails, codes)
        new.calibration_, new.calibration_clusters_ = how.calibrated(self.calibration_, cal), codes
        new.calibration_losses_, new.calibration_signals_, new.used_rows_ = z, S, used
        new.calibration_inputs_ = outputs.X
        return new


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration(Shown):
    """How other rows calibrate, as passed to `recalibrate`."""

    half_life: float | None = None
    drift_per_row: float | None = None
    alpha: float = 0.1
    clusters: ArrayLike | str | None = None
    groups: Any = None

    def check(self, old: Calibration) -> None:
        """Raise where settings do not go together, or not with the kind of calibration."""
        if self.clusters is not None and old.n_clusters is None:
            raise ValueError(
                "this Locus was fitted without clusters, so its loss model may know the clusters "
                "of these rows, and nothing could be promised of new ones; fit with "
                "fit(X, y, clusters=...)."
            )
        if self.half_life is None:
            if self.drift_per_row is not None:
                raise ValueError(
                    "drift_per_row goes with half_life; for equal weights, pass "
                    "half_life=float('inf')."
                )
            return
        if not isinstance(old, MarginalCalibration | FadingCalibration):
            raise ValueError(
                "half_life is for marginal calibration, and this Locus has a "
                f"{type(old).__name__}; leave it out, and pass the recent rows only."
            )

    def cluster_codes(self, n: int) -> IntArray | None:
        """Codes of the clusters of n rows; None without clusters."""
        return None if self.clusters is None else label_codes(self.clusters, n, "clusters")[1]

    def calibrated(self, old: Calibration, cal: Part) -> Calibration:
        """What the rows teach: the same kind as before, or weights that fade."""
        if old.asks == "groups" or self.groups is not None:
            cal = replace(cal, given=Given(self.groups).asked(old))
        if self.half_life is None:
            return self._reached(old.again(cal))
        return self._reached(FadingCalibration.of(cal, self.half_life, self.drift_per_row))

    def _reached(self, made: Calibration) -> Calibration:
        """Refuse weights that fade too fast for alpha."""
        fades = isinstance(made, FadingCalibration)
        trouble = made.too_few(one_alpha(self.alpha)) if fades else None
        if trouble is not None:
            raise ValueError(f"rows fade too fast: {trouble}")
        return made
