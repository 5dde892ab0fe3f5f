"""One look at the signals of the last week, where they are kept: do they tell its rows apart?"""

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from locuscore._protocols import FloatArray
from locuscore.watch._evidence.two_samples import compare, share_far
from locuscore.watch._places import picked
from locuscore.watch._reference import unpacked

if TYPE_CHECKING:
    from locuscore.watch._watch import Watch

WEEK = 7 * 86_400_000_000
FIRST = 1_000  # decisions that are the reference where D2 cannot be
RECENT = 500  # rows of the last week whose signals are compared
MOST_NAMED = 5


def look_at_signals(
    watch: "Watch", facts: Mapping[str, Any], since: int, up_to: int, now: int
) -> dict[str, Any] | None:
    """Compare the last week's signals with the reference; None where none are kept."""
    if now - since < WEEK:  # some days of a week may look different by themselves
        return None
    begin = watch.ledger.last_number(now - WEEK)
    recent = _signals(watch, begin, up_to)
    reference, d1 = (unpacked(facts.get(name)) for name in ("signals", "fit_signals"))
    if not len(recent):
        return None
    if reference is None:
        first = watch.ledger.last_number(since)
        reference = _signals(watch, first, min(first + FIRST, begin))
    found: dict[str, Any] = {"at": now, "auc": None, "p_value": None, "outside": None}
    found["signals"] = []
    seen = None
    if reference.shape[1:] == recent.shape[1:]:
        seen = compare(reference, recent, zlib.crc32(watch.digest.encode()))
    if seen is not None:
        found["auc"] = seen.auc
        found["p_value"] = None if facts.get("why_not") else seen.p_value
        found["signals"] = _most_moved(facts, seen.shifts)
    if d1 is not None and d1.shape[1] == recent.shape[1]:
        found["outside"] = share_far(d1, recent)
    return found


def _signals(watch: "Watch", after: int, up_to: int) -> FloatArray:
    """Signals of at most 500 rows, spread evenly over some numbers."""
    if up_to <= after:
        return np.empty((0, 0))
    step = -(-(up_to - after) // RECENT)
    seqs = picked(after, up_to, step, watch.ledger.secret)[-RECENT:]
    found = watch.ledger.with_numbers(watch.digest, seqs, ["signals"])["signals"]
    return found[~np.isnan(found).all(axis=1)] if found.size else np.empty((0, 0))


def _most_moved(facts: Mapping[str, Any], shifts: FloatArray) -> list[dict[str, Any]]:
    """The five signals whose distributions moved most; parts of one signal count as one."""
    names: Sequence[str] = facts.get("names", [])
    players: Sequence[int] = facts.get("players", [])
    if len(players) != len(shifts):
        names, players = [f"signal {j}" for j in range(len(shifts))], range(len(shifts))
    largest: dict[int, float] = {}
    for player, shift in zip(players, shifts.tolist(), strict=True):
        largest[player] = max(shift, largest.get(player, 0.0), key=abs)
    top = sorted(largest.items(), key=lambda one: -abs(one[1]))[:MOST_NAMED]
    return [{"name": names[player], "shift": shift} for player, shift in top]


def look_sentence(look: Mapping[str, Any]) -> str:
    told = ""
    if look["auc"] is not None:
        p = "" if look["p_value"] is None else f", p = {look['p_value']:.2g} for this one look"
        told = (
            "A classifier tells the signals of the last week from the reference with an AUC of "
            f"{look['auc']:.2f}{p}."
        )
    if look["outside"] is not None:
        told += (
            f" {look['outside']:.1%} of its rows lie where the fit had none; 1 % would do so if "
            "nothing had changed."
        )
    return told.strip()
