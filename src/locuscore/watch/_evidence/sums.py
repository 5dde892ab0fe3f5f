"""Sums over all start times, in logarithms, for many rows at once."""

import numpy as np

from locuscore._protocols import FloatArray


def log_mean(values: FloatArray) -> FloatArray:
    """Logarithm of the mean of ``exp(values)`` over the last axis."""
    top = values.max(axis=-1)
    mean = np.mean(np.exp(values - top[..., None]), axis=-1)
    return np.asarray(top + np.log(mean))


def running_sums(first: FloatArray, inputs: FloatArray, steps: FloatArray) -> FloatArray:
    """Logarithm of ``R_t = R_(t-1) f_t + w_t`` for every row t and every bet.

    `first` has log R_0 for each bet, `inputs` log w_t for each row, and `steps` log f_t, of shape
    (rows, bets). With ``F_t = f_1 ... f_t`` it is ``R_t = F_t (R_0 + sum over s <= t of w_s /
    F_s)``, which needs no loop over rows.
    """
    products = np.cumsum(steps, axis=0)
    parts = np.concatenate([first[None], inputs[:, None] - products])
    sums: FloatArray = np.logaddexp.accumulate(parts, axis=0)[1:] + products
    return sums
