"""Do two versions give the same scores? A fixed set of fits, rules and kept archives, compared.

``write FILE`` fits every case with fixed seeds and keeps all numbers and texts; ``compare FILE``
does the same again and prints, case by case, whether they are identical, or the largest relative
difference. It fails above 1e-12, and where a text differs. Only public names are used, so the same
script runs on both versions:

    PYTHONPATH=old/src python -m benchmarks.costs.same_scores write FILE
    PYTHONPATH=src python -m benchmarks.costs.same_scores compare FILE

Other versions of the libraries may give other numbers; those that differ are printed.
"""

import argparse
import difflib
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.costs.same_scores_cases import Case, all_cases
from locuscore import FlagRule, Score

MOST = 1e-12
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "pandas", "polars", "pyarrow", "lightgbm"),
    *("torch", "stochtree", "skpro", "skops"),
)
Values = dict[str, np.ndarray | str]


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray | str]]:
    """Take a result apart: arrays of floats, and texts."""
    if isinstance(value, FlagRule):
        parts = ("threshold", "standing", "guarantee", "assumptions", "evidence", "table")
        value = {part: getattr(value, part) for part in parts} | {"card": str(value)}
    elif isinstance(value, Score):
        value = str(value)
    elif is_dataclass(value):
        shown = [part.name for part in fields(value) if not part.name.startswith("_")]
        value = {part: getattr(value, part) for part in shown} | {"text": str(value)}
    if hasattr(value, "items"):
        for key, part in value.items():
            yield from leaves(part, f"{name}/{key}" if name else str(key))
        return
    if value is None or isinstance(value, str):
        yield name, str(value)
        return
    if isinstance(value, list | tuple) and not all(isinstance(v, int | float) for v in value):
        for number, part in enumerate(value):
            yield from leaves(part, f"{name}/{number}")
        return
    array = np.asarray(value)
    if array.dtype.kind in "fiub":
        yield name, array.astype(np.float64)
    else:
        yield name, json.dumps(array.tolist(), default=str)


def keep(path: Path, found: dict[str, Values], versions: dict[str, str]) -> None:
    """One array of numbers, and one text that says where each of them and each text belongs."""
    layout, numbers = {}, []
    for case, values in found.items():
        layout[case] = {k: v if isinstance(v, str) else list(v.shape) for k, v in values.items()}
        numbers += [v.ravel() for v in values.values() if not isinstance(v, str)]
    text = json.dumps({"versions": versions, "layout": layout})
    coded = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez_compressed(path, numbers=np.concatenate(numbers), text=coded)


def kept(path: Path) -> tuple[dict[str, Values], dict[str, str]]:
    with np.load(path) as file:
        numbers, text = file["numbers"], json.loads(file["text"].tobytes())
    found: dict[str, Values] = {}
    start = 0
    for case, entries in text["layout"].items():
        found[case] = {}
        for name, entry in entries.items():
            if isinstance(entry, str):
                found[case][name] = entry
                continue
            size = int(np.prod(entry))
            found[case][name] = numbers[start : start + size].reshape(entry)
            start += size
    return found, text["versions"]


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Largest relative difference; 0 where values are the same, or both are missing."""
    if before.shape != after.shape:
        return np.inf
    other = (before != after) & ~(np.isnan(before) & np.isnan(after))
    a, b = before[other], after[other]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return np.inf
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(a), np.abs(b)), initial=0.0))


def has_same_bits(before: np.ndarray, after: np.ndarray) -> bool:
    return before.shape == after.shape and before.tobytes() == after.tobytes()


def verdict(before: Values, after: Values, numbers_only: bool) -> tuple[bool, str]:
    """Whether a case is the same, and one line about it; more where texts differ."""
    if not before:
        return False, "not in the file"
    missing = [name for name in before if name not in after]
    new = f" ({len(after.keys() - before.keys())} new)" if after.keys() - before.keys() else ""
    if missing:
        return False, f"missing: {', '.join(missing[:5])}{new}"
    texts, worst, where, is_identical = [], 0.0, "", True
    for name, old in before.items():
        now = after[name]
        if isinstance(old, str) or isinstance(now, str):
            if not (isinstance(old, str) and isinstance(now, str) and old == now):
                texts.append(name)
            continue
        if not has_same_bits(old, now):
            is_identical = False
            if (size := difference(old, now)) >= worst:
                worst, where = size, name
    line = "identical" if is_identical else f"largest relative difference {worst:.1e} in {where}"
    for name in texts:
        lines = (str(values[name]).splitlines() for values in (before, after))
        changes = difflib.unified_diff(*lines, "before", "after", lineterm="", n=0)
        line += f"\n    text of {name} differs\n      " + "\n      ".join(list(changes)[2:8])
    return worst <= MOST and (numbers_only or not texts), line + new


def compare(path: Path, cases: dict[str, Case], only: str, numbers_only: bool) -> bool:
    """Print one line per case; whether all are the same."""
    before, versions = kept(path)
    gone = [name for name in before if only in name and name not in cases]
    for name, now in library_versions().items():
        if versions.get(name) != now:
            print(f"note: {name} was {versions.get(name)}, is {now}")
    results = []
    for name, case in cases.items():
        try:
            is_same, line = verdict(before.get(name, {}), dict(leaves(case())), numbers_only)
        except Exception as error:  # the other cases are compared all the same
            is_same, line = False, f"raised {type(error).__name__}: {error}"
        results.append((name, is_same, line == "identical"))
        print(f"{'ok  ' if is_same else 'FAIL'} {name}: {line}", flush=True)
    n_same, n_identical = (sum(result[i] for result in results) for i in (1, 2))
    print(f"{n_identical} of {len(results)} cases identical, {n_same} within {MOST:g}.")
    if gone:
        print(f"FAIL in the file only: {', '.join(gone)}")
    return n_same == len(results) and not gone


def library_versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--numbers-only", action="store_true", help="texts may differ")
    options = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):  # sums depend on the threads
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.costs.same_scores", *sys.argv[1:]],
            {**os.environ, **ONE_THREAD},
        )
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    cases = {name: case for name, case in all_cases().items() if options.only in name}
    if options.action == "compare":
        is_same = compare(options.file, cases, options.only, options.numbers_only)
    else:
        found = {name: dict(leaves(case())) for name, case in cases.items()}
        keep(options.file, found, library_versions())
        is_same = True
    print(f"{len(cases)} cases in {time.perf_counter() - start:.0f} s")
    sys.exit(not is_same)


if __name__ == "__main__":
    main()
