"""How bad can this one prediction be, and may I act on it?

`Locus` wraps a fitted predictor and a loss, and bounds the loss of each single prediction.
"""

from locuscore._gamma import KNNGamma
from locuscore._locus import Locus
from locuscore._losses import cost, pinball
from locuscore._predictor import prediction_column
from locuscore._validation import LocusWarning

__all__ = ["KNNGamma", "Locus", "LocusWarning", "cost", "pinball", "prediction_column"]
__version__ = "0.1.0"
