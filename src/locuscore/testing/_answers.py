"""Answers of two language models, simulated: cheap signals, graded losses, and the known truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import check_count, one_tau
from locuscore._shared.optional import require
from locuscore._shared.shown import Shown

# Share of the questions, how hard they are, and how far the judge overrates answers to them.
TOPICS = {
    "billing": (0.30, -0.6, 0.0),
    "coding": (0.25, 0.0, 0.2),
    "history": (0.20, 0.1, 0.4),
    "law": (0.15, 0.7, 2.2),
    "medicine": (0.10, 0.5, 1.8),
}
MODELS = {"small": -1.1, "large": -2.6}  # log odds of a wrong answer to an average question
# A wrong answer loses a quarter of the marks to all of them.
LOST = np.array([0.25, 0.5, 0.75, 1.0])
LOST_SHARES = np.array([0.2, 0.2, 0.25, 0.35])
N_SAMPLES = 5  # answers drawn again, for the agreement among them
N_EMBEDDING = 4


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Shown):
    """A population of questions with the answers of two models, of which everything is known.

    Each question has a topic and a hidden difficulty, on which the chance of a wrong answer depends
    for a small and a large model. A wrong answer loses a quarter, a half, three quarters or all of
    the marks. The signals are informative and imperfect: for each model the mean log-probability of
    the tokens, the length, the agreement of five drawn answers and a judge's confidence, and an
    embedding of the question in four numbers. The judge overrates answers on law and medicine.
    Given the chance of a wrong answer, signals and grades are independent, so the share of bad
    answers among any set of rows is the mean of their `exceedance`, exactly.

    Parameters
    ----------
    signals
        A frame of topic, embedding and each model's signals.
    wrong
        Probability (n, 2) that the answer of each model is wrong.

    Examples
    --------
    >>> from locuscore.testing import Answers
    >>> answers = Answers.sample(1000, rng=0)
    >>> graded = answers.graded(200, rng=1)  # drawn with replacement, with grades
    >>> graded.shape, list(graded.columns[-2:])
    ((200, 15), ['small_loss', 'large_loss'])
    """

    signals: Any
    wrong: FloatArray

    @classmethod
    def sample(cls, n: int, rng: int | np.random.Generator) -> "Answers":
        """Draw a population of n questions."""
        pandas = require("pandas", extra="demo")
        n, rng = check_count(n, "n"), np.random.default_rng(rng)
        shares, hard, overrated = np.array(list(TOPICS.values())).T
        topic = rng.choice(len(TOPICS), size=n, p=shares)
        difficulty = hard[topic] + rng.normal(size=n)
        centres = np.random.default_rng(0).normal(size=(len(TOPICS), N_EMBEDDING))
        embedding = centres[topic] + 0.8 * rng.normal(size=(n, N_EMBEDDING))
        embedding[:, 0] += 0.4 * difficulty
        columns = {"topic": np.array(list(TOPICS))[topic]}
        columns |= {f"embedding_{j}": embedding[:, j].round(3) for j in range(N_EMBEDDING)}
        wrong = np.empty((n, len(MODELS)))
        for m, (name, level) in enumerate(MODELS.items()):
            log_odds = level + 1.6 * difficulty + 0.7 * rng.normal(size=n)
            wrong[:, m] = expit(log_odds)
            columns |= _signals(name, wrong[:, m], topic, overrated[topic], rng)
        return cls(pandas.DataFrame(columns), wrong)

    def __len__(self) -> int:
        return len(self.wrong)

    def exceedance(self, tau: float) -> FloatArray:
        """Probability (n, 2) that the loss of each model's answer exceeds tau."""
        limit = one_tau(tau)
        if limit < 0:
            return np.ones_like(self.wrong)
        return self.wrong * LOST_SHARES[limit < LOST].sum()

    def graded(self, n: int, rng: int | np.random.Generator) -> Any:
        """Draw n questions with replacement, with fresh grades: signals and the two losses."""
        rng = np.random.default_rng(rng)
        return self.grade(rng.integers(len(self), size=check_count(n, "n")), rng)

    def grade(self, rows: IntArray, rng: int | np.random.Generator) -> Any:
        """The questions at these positions with fresh grades, as a frame."""
        rng = np.random.default_rng(rng)
        lost = rng.choice(LOST, size=(len(rows), len(MODELS)), p=LOST_SHARES)
        loss = np.where(rng.uniform(size=lost.shape) < self.wrong[rows], lost, 0.0)
        found = self.signals.iloc[rows].reset_index(drop=True)
        return found.assign(**{f"{name}_loss": loss[:, m] for m, name in enumerate(MODELS)})


def _signals(
    name: str, wrong: FloatArray, topic: IntArray, overrated: FloatArray, rng: np.random.Generator
) -> dict[str, Any]:
    """What is cheap to know of a model's answers."""
    n, log_odds = len(wrong), logit(wrong)
    surprise = np.exp(-1.6 + 0.25 * log_odds + 0.35 * rng.normal(size=n))
    tokens = np.exp(4.5 + 0.15 * topic + 0.1 * log_odds + 0.4 * rng.normal(size=n))
    # Drawn answers agree unless the model is unsure; some mistakes are made with conviction.
    agree = rng.binomial(N_SAMPLES, 1.0 - 0.75 * wrong) / N_SAMPLES
    judge = expit(1.2 - 0.8 * log_odds + overrated + 0.8 * rng.normal(size=n))
    return {
        f"{name}_logprob": -surprise.round(4),
        f"{name}_length": tokens.round().astype(np.int64),
        f"{name}_agreement": agree,
        f"{name}_judge": judge.round(3),
    }
