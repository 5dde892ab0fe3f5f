"""Measures of a bound, of a score and of a predictive distribution: functions of arrays.

A row is always accepted when ``score <= threshold``, and a loss is an exceedance when ``z > tau``.
Missing values, empty arrays and arrays of different lengths are refused. Losses are finite; scores
and bounds may be infinite.
"""

from locuscore.metrics._bounds import (
    LocalCoverage,
    cluster_coverage_p_value,
    coverage,
    local_coverage,
    pinball_loss,
)
from locuscore.metrics._distributions import (
    Uniformity,
    crps,
    pit_uniformity,
    randomized_tails,
)
from locuscore.metrics._policies import adapted_bounds, recalibrated_bounds, same_bounds
from locuscore.metrics._rolling import PeriodScores, rolling_origin
from locuscore.metrics._scores import (
    ExceedanceCurve,
    ExceedanceRates,
    acceptance_rate,
    exceedance_area,
    exceedance_curve,
    exceedance_rates,
)

__all__ = [
    "ExceedanceCurve",
    "ExceedanceRates",
    "LocalCoverage",
    "PeriodScores",
    "Uniformity",
    "acceptance_rate",
    "adapted_bounds",
    "cluster_coverage_p_value",
    "coverage",
    "crps",
    "exceedance_area",
    "exceedance_curve",
    "exceedance_rates",
    "local_coverage",
    "pinball_loss",
    "pit_uniformity",
    "randomized_tails",
    "recalibrated_bounds",
    "rolling_origin",
    "same_bounds",
]
