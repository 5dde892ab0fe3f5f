import zlib

import numpy as np
import pytest
from hypothesis import settings

# No clock decides about a test, and a failure repeats.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded from the test's own name, so that a failure repeats."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
