"""Which alternatives and start weights find a jump soon? ``make watch-bets``.

Simulated jumps alone decide, never the streams on which alarms are compared with others. The oracle
knows the rate before the jump and after it, and when it comes; it adds up the likelihood ratio from
there to ``1 / DELTA``.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.pages import write_section
from benchmarks.watch.validity import PAGE
from locuscore.watch._evidence import alarm, betting, starts, urn

DELTA, RATE, N2, REPEATS = 0.025, 0.1, 5_000, 40
JUMPS = {1.25: 12_000, 1.5: 3_000, 2.0: 1_500, 3.0: 700}  # with the rows after each
STARTS = (0, 2_000, 20_000)
FIRST = starts.FIRST
CHOICES: dict[str, tuple[tuple[float, ...], float, float]] = {
    "chosen": (urn.ODDS, urn.BLOCKS, FIRST),
    "half at once": (urn.ODDS, urn.BLOCKS, 0.5),
    "a tenth at once": (urn.ODDS, urn.BLOCKS, 0.1),
    "five, wider": ((1.25, 1.5, 2.0, 3.0, 6.0), 20.0, FIRST),
    "three": ((1.25, 2.0, 4.0), 20.0, FIRST),
    "three, closer": ((1.2, 1.5, 2.5), 20.0, FIRST),
    "early starts": (urn.ODDS, 3.0, FIRST),
    "late starts": (urn.ODDS, 200.0, FIRST),
}


def delay(alarmed_at: int | None, start: int) -> float:
    return np.inf if alarmed_at is None else alarmed_at - start


def oracle(bad: np.ndarray, rate: float, later: float) -> float:
    """Rows that the likelihood ratio of the true rates needs."""
    steps = np.where(bad, np.log(later / rate), np.log((1 - later) / (1 - rate)))
    over = np.flatnonzero(np.cumsum(steps) >= -np.log(DELTA))
    return float(over[0]) + 1 if len(over) else np.inf


def delays(jump: float, start: int, kind: str) -> dict[str, float]:
    """Median delay by choice; alarms before the jump are left out."""
    found: dict[str, list[float]] = {name: [] for name in ("oracle", *CHOICES)}
    m0 = round(RATE * (N2 + 1))
    for seed in range(REPEATS):
        rng = np.random.default_rng([seed, start])
        rate = rng.beta(m0, N2 + 1 - m0) if kind == "coverage" else RATE
        rates = np.repeat([rate, jump * rate], [start, JUMPS[jump]])
        bad = rng.random(len(rates)) < rates
        found["oracle"].append(oracle(bad[start:], rate, jump * rate))
        for name, (odds, c, first) in CHOICES.items():
            betting.ODDS, urn.BLOCKS, alarm.ROWS = odds, c, 50.0 * c
            starts.FIRST = first
            if kind == "coverage":
                one: urn.UrnAlarm | alarm.BetsAlarm = urn.UrnAlarm(
                    m0, N2 + 1 - m0, DELTA, odds=odds
                )
            else:
                one = alarm.BetsAlarm(betting.MeanBets(RATE), DELTA)
            one.update(bad.astype(float))
            if one.alarmed_at is None or one.alarmed_at > start:
                found[name].append(delay(one.alarmed_at, start))
    return {name: float(np.median(values)) for name, values in found.items()}


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Write the section of the page."""
    names = ["oracle", *CHOICES]
    lines = [
        "## Bets",
        "",
        f"`make watch-bets`: median delay in rows over {REPEATS} simulated jumps from the promised "
        f"rate {RATE:g}, at delta = {DELTA:g}. For coverage D2 has {N2:,} rows, its rate is drawn "
        "from the beta law, and the jump multiplies that. The oracle knows both rates and the time "
        "of the jump. *Chosen* are the odds "
        f"{', '.join(f'{one:g}' for one in urn.ODDS)} and a weight of {FIRST:g} for "
        "a start at once; no choice is best everywhere. D2 leaves the "
        "rate of coverage open by 4 %, so a small jump late is no contradiction to its promise.",
        "",
        row(["claim", "jump", "after rows", *names]),
        row(["---"] * (3 + len(names))),
    ]
    for kind in ("coverage", "certificate"):
        for start in STARTS:
            for jump in JUMPS:
                found = delays(jump, start, kind)
                cells = ["never" if np.isinf(one) else f"{one:,.0f}" for one in found.values()]
                lines.append(row([kind, f"{jump:g}x", f"{start:,}", *cells]))
                print(lines[-1], flush=True)
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
