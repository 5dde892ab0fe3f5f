"""Forge 20,000 archives, load and score each in a process of its own, and count what happens.

Run ``make fuzz``; about a quarter of an hour on one core.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.pages import write_section
from fuzz.server import CPU_SECONDS, HOLES, MEANING, Outcome, Server
from fuzz.targets import NEED_TORCH, TARGETS, write_target

AT_ONCE = 20  # tries of one target
INTRODUCTION = """## Forged archives

Each try takes an honest archive of a target (an engine with a linear predictor, or a predictor with
two small trees as the engine), changes some of its members within the rules of their format,
corrects the digests in the manifest, loads the archive and scores a few rows with it. Made by
`make fuzz`; a seed always gives the same forged archive, and
`PYTHONPATH=tests .venv/bin/python -m fuzz --target boosted --seed 17` shows what happens to one.
Targets with more tries than the others were run by themselves, with `--target`.

* **refused**: `ArchiveError`; nothing was scored.
* **same numbers**, **other numbers**: it loads and scores. A forger can choose the numbers; only a
  key can tell.
* **error on scoring**: it loads, and scoring raises a Python exception.
* What must not happen: another exception while loading, a signal (such as a segmentation fault),
  more than {seconds} s of processor time (a hang), more than 1 GB of memory at the peak.

ONNX and CatBoost models are parsed by code that we cannot check, so they load only from an archive
whose key was verified. Nobody forges these without the key: here no try gets as far as its model,
and those that load name another predictor or none.

"""


def steps(n_tries: int, targets: Sequence[str] = TARGETS) -> list[tuple[str, range]]:
    """Targets in turn, a few seeds each, so that a run that is stopped has tried them all alike."""
    each = -(-n_tries // len(targets))
    rounds = [range(first, min(first + AT_ONCE, each)) for first in range(0, each, AT_ONCE)]
    return [(name, seeds) for seeds in rounds for name in targets]


def shown(todo: list[tuple[str, range]], every: int) -> Iterable[tuple[str, range]]:
    """The same with progress: a bar on a terminal, now and then a line elsewhere."""
    if sys.stdout.isatty():
        from rich.progress import track  # noqa: PLC0415 - optional

        yield from track(todo, description="forged archives")
        return
    for done, step in enumerate(todo):
        if done % every == 0:
            print(f"{done} of {len(todo)} steps", flush=True)
        yield step


def run(
    n_tries: int, targets: Sequence[str] = TARGETS
) -> tuple[dict[str, Counter[Outcome]], list[str]]:
    """Counts by target, and the tries that broke something; as far as it came if interrupted."""
    counts = {name: Counter[Outcome]() for name in targets}
    holes = []
    with tempfile.TemporaryDirectory() as folder, Server() as plain, Server() as torch:
        files = {name: write_target(name, folder) for name in targets}
        try:
            for name, seeds in shown(steps(n_tries, targets), len(targets)):
                server = torch if name in NEED_TORCH else plain
                outcomes = server.outcomes(files[name], seeds)
                counts[name].update(outcomes)
                pairs = zip(seeds, outcomes, strict=True)
                for seed, outcome in pairs:
                    if outcome in HOLES:
                        holes.append(f"{MEANING[outcome]}: --target '{name}' --seed {seed}")
                        print(holes[-1], flush=True)
        except KeyboardInterrupt:
            print("interrupted: the section has what was tried")
    return counts, holes


def section(counts: dict[str, Counter[Outcome]], holes: list[str]) -> str:
    """The figures as Markdown."""
    rows = [(name, counts[name]) for name in counts]
    rows.append(("**all**", sum(counts.values(), Counter[Outcome]())))
    lines = [
        "| target | tries | " + " | ".join(MEANING.values()) + " |",
        "|---|" + "---:|" * (len(MEANING) + 1),
    ]
    for name, found in rows:
        cells = [f"{found[outcome]:,}" for outcome in MEANING]
        lines.append(f"| {name} | {found.total():,} | " + " | ".join(cells) + " |")
    text = INTRODUCTION.format(seconds=CPU_SECONDS) + "\n".join(lines) + "\n"
    return text + "".join(f"\n* {hole}" for hole in holes) + ("\n" if holes else "")


def main() -> None:
    """Run all tries and write the section; a hole is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this; repeatable")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("RESULTS.md"))
    options = parser.parse_args()
    counts, holes = run(options.tries, options.target or TARGETS)
    write_section(options.out, [section(counts, holes)])
    print(f"{len(holes)} holes; {options.out}")
    sys.exit(bool(holes))


if __name__ == "__main__":
    main()
