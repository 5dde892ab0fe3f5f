"""How much does a certificate accept that may be looked at at any time? ``make labels-anytime``.

Streams of labelled rows from populations of known risk, with a look after every 100 labels:

* anytime: one `AnytimeCertificate` for the whole stream, its reference the scores of D1
* anytime, D1's losses: the same with the out-of-fold pairs of D1
* once: `certify_threshold` on the labels so far, as if this were the only look
* every look: the same, made again at each look; what is wrong at any of them is wrong

A run may be killed at any moment: the next one makes the cells that are missing. ``--report`` only
writes the page.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.labels.risks import ISSUE, Risk, risks
from benchmarks.pages import write_section
from locuscore import anytime_certificate, certify_threshold

PAGE, RECORDS = (Path(__file__).with_name(name) for name in ("RESULTS.md", "anytime.jsonl"))
STREAMS, EVERY, DELTA = 100, 100, 0.1
LABELS = (200, 500, 1_000, 2_000, 5_000)
WAYS = ("anytime", "anytime, D1's losses", "once", "every look")


def records() -> list[dict]:
    """The cells there are."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines]


def stream(risk: Risk, seed: int) -> dict[str, dict[str, list[float]]]:
    """Accepted shares at the numbers of labels, and whether a look up to there was wrong."""
    rng = np.random.default_rng([zlib.crc32(risk.name.encode()), seed])
    plain = anytime_certificate(risk.score_fit, 0.5, risk.eta, DELTA)
    planned = anytime_certificate(
        risk.score_fit, 0.5, risk.eta, DELTA, reference_losses=risk.bad_fit
    )
    score, bad = risk.sample(rng, LABELS[-1])
    found = {way: {"accepted": [], "wrong": []} for way in WAYS}
    ever = dict.fromkeys(WAYS, False)
    for n in range(EVERY, LABELS[-1] + 1, EVERY):
        part = slice(n - EVERY, n)
        plain, planned = (one.after(score[part], bad[part]) for one in (plain, planned))
        once = certify_threshold(score[:n], bad[:n], 0.5, risk.eta, DELTA).threshold
        thresholds = dict(
            zip(WAYS, (plain.rule.threshold, planned.rule.threshold, once, once), strict=True)
        )
        for way, threshold in thresholds.items():
            is_wrong = risk.exceedance(threshold) > risk.eta
            ever[way] = is_wrong if way == "once" else ever[way] or is_wrong
            if n in LABELS:
                found[way]["accepted"].append(risk.accepted(threshold))
                found[way]["wrong"].append(float(ever[way]))
    return found


def run() -> None:
    """Make the cells that are missing."""
    done = {record["cell"] for record in records()}
    for risk in risks(ISSUE):
        if risk.name not in done:
            streams = [stream(risk, seed) for seed in range(STREAMS)]
            record = {"cell": risk.name, "best": risk.best, "streams": STREAMS}
            for way in WAYS:
                for what in ("accepted", "wrong"):
                    values = np.mean([one[way][what] for one in streams], axis=0)
                    record[f"{way}: {what}"] = np.round(values, 4).tolist()
            with RECORDS.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(risk.name, flush=True)


def page() -> None:
    """Write the section of the page."""
    found = records()
    n = sum(record["streams"] for record in found)
    lines = [
        "## Anytime certificates",
        "",
        f"`make labels-anytime`: {len(found)} risks of bike, homes and protein, {STREAMS} streams "
        f"each, delta = {DELTA:g}, a look after every {EVERY} labels. Accepted share over the "
        "largest valid one, mean over the risks; and the share of streams with a wrong rule: at "
        f"any look of up to {LABELS[-1]:,} labels, or, for the certificate made once, at that one.",
        "",
        f"| labels | {' | '.join(f'{m:,}' for m in LABELS)} | ever wrong | p-value |",
        f"|{'---|' * (len(LABELS) + 3)}",
    ]
    for way in WAYS:
        shares = np.mean([np.array(r[f"{way}: accepted"]) / r["best"] for r in found], axis=0)
        wrong = round(sum(r["streams"] * r[f"{way}: wrong"][-1] for r in found))
        worst = max(r[f"{way}: wrong"][-1] for r in found)
        p = binomtest(wrong, n, DELTA, "greater").pvalue
        told = " | ".join(f"{share:.2f}" for share in shares)
        lines.append(f"| {way} | {told} | {wrong / n:.1%} (worst risk {worst:.0%}) | {p:.2g} |")
    write_section(PAGE, lines)


if __name__ == "__main__":
    if "--report" not in sys.argv:
        run()
    page()
