"""One random_state in, independent integer seeds out."""

from typing import Any

import numpy as np
from sklearn.base import clone


def spawn_seeds(
    random_state: int | np.random.Generator | np.random.RandomState | None, n: int
) -> list[int]:
    """Return n independent seeds; the same integer `random_state` always gives the same ones."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    rng = np.random.default_rng(random_state)
    return [int(seed) for seed in rng.integers(2**31 - 1, size=n)]


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone whose own `random_state`, where it has one that is not set, is `seed`."""
    copy = clone(estimator, safe=False)  # an object without parameters is copied
    params = copy.get_params(deep=False) if hasattr(copy, "get_params") else {}
    if "random_state" in params and params["random_state"] is None:
        copy.set_params(random_state=seed)
    return copy
