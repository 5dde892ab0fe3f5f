"""How bad can this one prediction be, and may I act on it?

`Locus` wraps a fitted predictor and a loss, and bounds the loss of each single prediction.
"""

from locuscore._certify import (
    certify_groups,
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
)
from locuscore._gamma import KNNGamma
from locuscore._locus import Locus
from locuscore._losses import cost, pinball
from locuscore._predictor import prediction_column
from locuscore._rules import (
    FlagRule,
    Score,
    match_acceptance,
    tau_rule,
    tune_alpha,
    tune_threshold,
)
from locuscore._validation import LocusWarning

__all__ = [
    "FlagRule",
    "KNNGamma",
    "Locus",
    "LocusWarning",
    "Score",
    "certify_groups",
    "certify_threshold",
    "certify_threshold_holm",
    "certify_threshold_paper",
    "cost",
    "match_acceptance",
    "pinball",
    "prediction_column",
    "tau_rule",
    "tune_alpha",
    "tune_threshold",
]
__version__ = "0.1.0"
