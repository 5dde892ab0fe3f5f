"""One random_state in, independent integer seeds out."""

from collections.abc import Iterator
from contextlib import contextmanager
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
    """Return a clone that repeats itself: where its `random_state` is not set, it is `seed`.

    An estimator without one, such as a Pipeline, passes seeds on to the models inside it.
    """
    copy = clone(estimator, safe=False)  # an object without parameters is copied
    params = copy.get_params() if hasattr(copy, "get_params") else {}
    own = [name for name in params if name == "random_state"]
    names = own or sorted(name for name in params if name.endswith("__random_state"))
    unset = [name for name in names if params[name] is None]
    seeds = [seed] if own else spawn_seeds(seed, len(unset))
    if unset:
        copy.set_params(**dict(zip(unset, seeds, strict=True)))
    return copy


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, for packages that read no other, and put it back after."""
    before = np.random.get_state()  # noqa: NPY002 - theirs, not ours
    np.random.seed(seed)  # noqa: NPY002 - theirs, not ours
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002 - theirs, not ours
