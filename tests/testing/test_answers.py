import numpy as np
import pytest

from helpers import assert_binomial, raises

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def answers():
    from locuscore.testing import Answers

    return Answers.sample(4_000, rng=0)


@pytest.mark.parametrize("tau", [-1.0, 0.0, 0.25, 0.6, 1.0])
def test_grades_have_the_known_rates(answers, tau):
    """Given the rows, bad answers are independent with known chances, whatever is selected."""
    rng = np.random.default_rng(1)
    truth = answers.exceedance(tau)
    graded = answers.grade(np.arange(len(answers)), rng)
    for m, name in enumerate(("small", "large")):
        chance, bad = truth[:, m], graded[f"{name}_loss"].to_numpy() > tau
        trusted = graded[f"{name}_judge"].to_numpy() > 0.9
        # A row drawn at random among some rows is bad with their mean chance.
        for rows in (np.arange(len(bad)), np.flatnonzero(trusted)):
            rate = chance[rows].mean()
            if 0 < rate < 1:
                assert_binomial(bad[rows].sum(), len(rows), rate)
            else:
                assert bad[rows].mean() == rate


def test_the_judge_overrates_two_topics(answers):
    signals, truth = answers.signals, answers.exceedance(0.25)[:, 1]
    trusted = (signals["large_judge"] >= 0.85).to_numpy()
    rate = {t: truth[trusted & (signals["topic"] == t)].mean() for t in set(signals["topic"])}
    assert min(rate["law"], rate["medicine"]) > 1.5 * max(rate["billing"], rate["coding"])


def test_draws_are_repeatable(answers):
    first, second = (answers.graded(50, rng=3) for _ in range(2))
    assert first.equals(second)
    assert list(first.columns[:1]) == ["topic"]
    with raises(ValueError, "n"):
        answers.graded(0, rng=0)
