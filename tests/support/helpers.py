"""What several test files share: exact comparisons and exact statistical tests."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

SMALLEST_P = 1e-6
LONGEST_WAIT = 600  # seconds, for what hangs; how fast a machine is decides about no test


def repeated(times):
    """How often a test of a theorem repeats; ``make guarantees`` multiplies it, for more power."""
    return times * int(os.environ.get("LOCUSCORE_REPEATS", "1"))


def assert_close(actual, expected, rtol=0.0, atol=0.0):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def assert_binomial(successes, trials, probability, alternative="two-sided"):
    """Fail if the count is incompatible with the probability (exact test, p below 1e-6)."""
    p_value = binomtest(int(successes), int(trials), probability, alternative).pvalue
    assert p_value > SMALLEST_P, (
        f"{successes} of {trials} = {successes / trials:.4f} against {probability:.4f}, "
        f"p = {p_value:.2g}"
    )


def raises(kind, *facts):
    """Expect an error whose text holds each fact: a value, a limit, a name, a remedy."""
    return pytest.raises(kind, match=_holding(facts))


def warns(kind, *facts):
    """Expect a warning whose text holds each fact; others stay errors."""
    return pytest.warns(kind, match=_holding(facts))


def _holding(facts):
    """A pattern of texts that hold every fact, in any order."""
    return r"(?s)\A" + "".join(f"(?=.*{re.escape(str(fact))})" for fact in facts)


def shown_block(page, words):
    """Return the block of a page of docs/ that is not run as it stands and holds these words."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S) if words in b]
    return block
