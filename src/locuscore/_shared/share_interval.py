"""An exact interval for a share."""

from typing import Any

import numpy as np
from scipy.special import betaincinv

from locuscore._protocols import FloatArray


def share_interval(k: Any, n: Any, delta: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of level 1 - delta for a share, from k of n independent rows.

    Without rows it is from 0 to 1.
    """
    k, n = np.asarray(k), np.asarray(n)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, delta / 2), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - delta / 2), 1.0)
    return low, high
