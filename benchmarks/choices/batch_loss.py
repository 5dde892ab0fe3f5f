"""A batch accepted by its mean loss: accepted share, realised loss and time beside other rules.

`select_mean_loss`, with several values of its slack, beside `certify_mean_loss`, which promises
more, and the package score-select (``pip install score-select==0.1.1``), which is left out where it
is not installed. Run ``make choices-batch-loss``; about five minutes.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.pages import write_section
from locuscore import certify_mean_loss, select_mean_loss
from locuscore._rules import batch_loss

PAGE = Path(__file__).with_name("RESULTS.md")
N, LEVEL, DELTA = 400, 0.1, 0.1
REPEATS, RIVAL_REPEATS = 1_000, 16
SLACKS = (0.0, 0.25, 0.5, 1.0, 2.0)

Rows = tuple[np.ndarray, np.ndarray]
Select = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _law(name: str, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    v = rng.uniform(size=len(u))
    laws = {
        "uniform, up to u^2": u**2 * v,
        "exponential, 0.4 u^2, cut at 1": np.minimum(-0.4 * u**2 * np.log(v), 1.0),
        "uniform, up to 0.6 u": 0.6 * u * v,
        "nearly flat, 0.06 + 0.08 u": np.clip(0.06 + 0.08 * u + 0.15 * (v - 0.5), 0.0, 1.0),
        "0 or 1, 0.02 + 0.5 u^2": (v < 0.02 + 0.5 * u**2).astype(float),
    }
    return laws[name]


LAWS = (
    "uniform, up to u^2",
    "exponential, 0.4 u^2, cut at 1",
    "uniform, up to 0.6 u",
    "nearly flat, 0.06 + 0.08 u",
    "0 or 1, 0.02 + 0.5 u^2",
)


def draw(name: str, size: int, rng: np.random.Generator) -> Rows:
    u = rng.uniform(size=size)
    return u, _law(name, u, rng)


def ours(new: np.ndarray, cal: np.ndarray, losses: np.ndarray) -> np.ndarray:
    return select_mean_loss(new, cal, losses, LEVEL, largest_loss=1).accepted


def certified(new: np.ndarray, cal: np.ndarray, losses: np.ndarray) -> np.ndarray:
    return new <= certify_mean_loss(cal, losses, LEVEL, DELTA, support=(0, 1)).threshold


def rival(gamma: float, prune: str | None) -> Select:
    from SCoRE import SCoRE_SDR  # noqa: PLC0415 - optional

    def select(new: np.ndarray, cal: np.ndarray, losses: np.ndarray) -> np.ndarray:
        seed = int(1e6 * losses.sum())  # another one for each sample: pruning is random
        chosen = SCoRE_SDR((losses, cal), new, LEVEL, gamma * LEVEL, prune=prune, random_state=seed)
        return np.isin(np.arange(len(new)), chosen)

    return select


def measured(name: str, select: Select, repeats: int) -> tuple[float, float, float]:
    """Accepted share, mean loss of the accepted, and processor milliseconds a call."""
    rng = np.random.default_rng(0)
    found, spent = np.empty((repeats, 2)), 0.0
    for i in range(repeats):
        score, losses = draw(name, 2 * N, rng)
        began = time.process_time()
        accepted = select(score[N:], score[:N], losses[:N])
        spent += time.process_time() - began
        found[i] = accepted.mean(), losses[N:][accepted].sum() / max(1, accepted.sum())
    share, loss = found.mean(axis=0)
    return float(share), float(loss), 1000 * spent / repeats


def slack_table() -> list[str]:
    """How much is accepted with each slack; the constant of the module is put back."""
    kept, lines = batch_loss.SLACK, []
    for name in LAWS:
        cells = []
        for slack in SLACKS:
            batch_loss.SLACK = slack
            cells.append(f"{measured(name, ours, REPEATS)[0]:.3f}")
        batch_loss.SLACK = kept
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    head = " | ".join(f"{slack:g}" for slack in SLACKS)
    return [f"| accepted, slack | {head} |", "|---" * (len(SLACKS) + 1) + "|", *lines]


def methods() -> dict[str, tuple[Select, int]]:
    found: dict[str, tuple[Select, int]] = {"`select_mean_loss`": (ours, RIVAL_REPEATS)}
    found["`certify_mean_loss`"] = (certified, RIVAL_REPEATS)
    if find_spec("SCoRE") is not None:
        for gamma in (1.0, 0.95):
            found[f"score-select, gamma = {gamma:g} alpha"] = (rival(gamma, None), RIVAL_REPEATS)
    return found


def rival_table() -> list[str]:
    cells: dict[str, list[str]] = {}
    for label, (select, repeats) in methods().items():
        figures = [measured(name, select, repeats) for name in LAWS]
        cells[label] = [f"{share:.3f} ({loss:.3f})" for share, loss, _ in figures]
        cells[label].append(f"{np.mean([one[2] for one in figures]):,.1f}")
        print(f"| {label} | {' | '.join(cells[label])} |", flush=True)
    lines = [f"| {label} | {' | '.join(one)} |" for label, one in cells.items()]
    return [f"| | {' | '.join(LAWS)} | ms |", "|---" * (len(LAWS) + 2) + "|", *lines]


def main() -> None:
    about = (
        f"{N} labelled rows with a uniform score u, a batch of {N}, level {LEVEL:g}. The slack is "
        "that in `g` (docs/batch_and_planning.md) in units of the largest loss, by default 0.25. "
        f"Each cell is the mean of {REPEATS:,} samples."
    )
    beside = (
        f"Accepted share, and in brackets the mean loss of the accepted, over the same "
        f"{RIVAL_REPEATS} samples for all methods; processor time of a call. `certify_mean_loss` "
        f"promises its level with confidence {1 - DELTA:g} for all rows to come. score-select with "
        "prune 'homo' accepts as slack 0 does, since its e-values are those: a uniform number "
        "decides between all rows and none."
    )
    lines = ["## A batch by its mean loss", "", about, "", *slack_table(), "", beside, ""]
    write_section(PAGE, [*lines, *rival_table()])


if __name__ == "__main__":
    main()
