"""How bad can this one prediction be, and may I act on it?

`Locus` wraps a fitted predictor and a loss, and bounds the loss of each single prediction.
"""

from locuscore._batch import BatchSelection, select_batch
from locuscore._curve import OperatingCurve, operating_curve
from locuscore._gamma import KNNGamma
from locuscore._locus import Locus
from locuscore._losses import cost, pinball
from locuscore._mean_loss import certify_mean_loss, mean_loss_bound, mean_loss_p_value
from locuscore._plan import RowPlan, rows_for_bound, rows_for_certificate, rows_for_coverage
from locuscore._predictor import prediction_column
from locuscore._route import (
    ExceedanceInterval,
    Routing,
    exceedance_interval,
    route,
    route_by_cost,
)
from locuscore._validation import LocusWarning

__all__ = [
    "BatchSelection",
    "ExceedanceInterval",
    "KNNGamma",
    "Locus",
    "LocusWarning",
    "OperatingCurve",
    "Routing",
    "RowPlan",
    "certify_mean_loss",
    "cost",
    "exceedance_interval",
    "mean_loss_bound",
    "mean_loss_p_value",
    "operating_curve",
    "pinball",
    "prediction_column",
    "route",
    "route_by_cost",
    "rows_for_bound",
    "rows_for_certificate",
    "rows_for_coverage",
    "select_batch",
]
__version__ = "0.1.0"
