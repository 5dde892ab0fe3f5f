"""Known weights beside those of puncc 0.9.3, which needs numpy below 2 and so a process of its own.

The rows are those of ``shift.py``: homes tilted by living area, 500 rows of D2. Both are given the
same losses and the same true ratios, scaled to mean one over D2; the loss model is none, as puncc
has it for absolute residuals, so a bound is a weighted quantile of the losses of D2. Ours gives
each new row its own weight; puncc gives every new row the weight one.

Run ``make choices-shift-puncc``, which makes the other environment first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ALPHA = 0.1
PAGE = Path(__file__).with_name("RESULTS.md")


def of_puncc(path: str) -> None:
    """Print puncc's bound for each problem of a file; runs in the other environment."""
    from deel.puncc.api.calibration import BaseCalibrator  # noqa: PLC0415

    bounds = []
    with np.load(path) as problems:
        for name in problems.files:
            losses, weights = problems[name]
            calibrator = BaseCalibrator(
                nonconf_score_func=lambda y_pred, y_true: np.abs(y_true - y_pred),
                pred_set_func=lambda y_pred, scores_quantile: (y_pred, y_pred + scores_quantile),
            )
            calibrator.fit(X=losses[:, None], y_pred=np.zeros(len(losses)), y_true=losses)
            calibrator.set_norm_weights(BaseCalibrator.barber_weights(weights))
            _, bound = calibrator.calibrate(
                X=np.zeros((1, 1)),
                y_pred=np.zeros(1),
                alpha=ALPHA,
                weights=calibrator.get_norm_weights(),
            )
            bounds.append(float(np.ravel(bound)[0]))
    print(json.dumps(bounds))


def compared(python: str) -> list[str]:
    """The table: coverage of new rows and median bound, tilt by tilt."""
    from benchmarks.choices.shift import SEEDS, Fitted, tilts  # noqa: PLC0415
    from benchmarks.datasets import load  # noqa: PLC0415
    from locuscore.calibration._weighted import WeightedCalibration  # noqa: PLC0415

    X, y = load("homes")
    problems, ours = {}, {}
    for seed in SEEDS:
        fitted = Fitted(X, y, seed)
        z_cal, z = fitted.locus.calibration_losses_, fitted.held_out_losses
        for c, tilt in tilts(X):
            w, unit = tilt(fitted.cal), tilt(fitted.cal).mean()
            order = np.argsort(-z_cal)
            tails = np.exp(-z_cal / z_cal.mean())[order]
            level = WeightedCalibration(tails, w[order]).level(ALPHA, tilt(fitted.held_out))
            with np.errstate(divide="ignore"):
                bound = -z_cal.mean() * np.log(level)
            share = tilt(fitted.held_out) / tilt(fitted.held_out).sum()
            problems[f"{seed} {c:g}"] = np.array([z_cal, w / unit])
            ours[f"{seed} {c:g}"] = bound, share, z
        print(f"seed {seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problems.npz"
        np.savez(path, **problems)
        call = [python, __file__, "--child", str(path)]
        found = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    rows = {}
    for (name, (bound, share, z)), other in zip(ours.items(), json.loads(found), strict=True):
        middle = np.quantile(bound, 0.5, weights=share, method="inverted_cdf")
        covered = share @ (z <= bound * (1 + 1e-12)), share @ (z <= other)
        infinite = share @ np.isinf(bound)
        rows.setdefault(name.split()[1], []).append((*covered, infinite, other / middle))
    lines = [
        "## Known weights beside puncc's",
        "",
        "Made by `make choices-shift-puncc`: rows and tilts as above, 8 seeds, no loss model, true "
        "ratios. `Shifted` weighs each new row by its own ratio, which makes the promise exact; "
        "puncc 0.9.3 gives every new row the weight one. Spread: standard deviation over seeds.",
        "",
        "| tilt | Shifted, coverage | spread | infinite, % | puncc, coverage | spread "
        "| puncc's bound / median of ours |",
        "|" + "---:|" * 7,
    ]
    for c, runs in rows.items():
        (a, b, infinite, ratio), (sa, sb, *_) = np.mean(runs, axis=0), np.std(runs, axis=0)
        ours_cells = f"{a:.3f} | {sa:.3f} | {100 * infinite:.1f}"
        lines.append(f"| {c} | {ours_cells} | {b:.3f} | {sb:.3f} | {ratio:.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=".venv-puncc/bin/python", help="that has puncc")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        of_puncc(options.child)
        return
    from benchmarks.pages import write_section  # noqa: PLC0415

    write_section(PAGE, compared(options.python))


if __name__ == "__main__":
    main()
