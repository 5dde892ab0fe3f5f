import zlib

import numpy as np
import pytest


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded from the test's own name, so that a failure repeats."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
