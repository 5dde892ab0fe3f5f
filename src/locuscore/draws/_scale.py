"""The smallest scale of a law: relative to the losses, so that their unit plays no part."""

import numpy as np

from locuscore._protocols import FloatArray

SMALLEST_RELATIVE_SCALE = 1e-9


def smallest_scale(z: FloatArray) -> float:
    """Return a scale negligible beside the losses z, positive even if they are all equal."""
    size = float(np.std(z)) or float(np.max(np.abs(z)))
    return SMALLEST_RELATIVE_SCALE * (size or 1.0)
