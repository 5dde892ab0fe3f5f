"""The options of all commands; `_option_values` has what they mean."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

ENGINES = ("auto", "BART", "Forest", "Gaussian", "MDN", "QuantileGrid", "Scale")
NAMED_LOSSES = ("absolute", "squared", "zero_one", "log", "brier")
LOSSES = (*NAMED_LOSSES, "pinball:LEVEL", "module:object")
MAX_ROWS = 200_000


class Rule(StrEnum):
    """Rules that need no other rows."""

    TAU = "tau"
    CERTIFY = "certify"
    NONE = "none"


class Thresholded(StrEnum):
    """What a certified rule looks at."""

    TAIL = "tail"
    EXCEEDANCE = "exceedance"
    BOUND = "bound"


class BadRows(StrEnum):
    """What becomes of rows that cannot be scored."""

    FAIL = "fail"
    FLAG = "flag"


PREDICTOR, MODEL, RULE, OUTPUT = "The predictor", "The loss model", "The rule", "Output"


def option(
    *names: str, panel: str | None = None, metavar: str = "X", least: int | None = None, text: str
) -> Any:
    """Return an option with a short help text; `metavar` is "" for a switch."""
    return typer.Option(*names, metavar=metavar, min=least, help=text, rich_help_panel=panel)


Json = Annotated[bool, option("--json", metavar="", panel=OUTPUT, text="Print one JSON object.")]
Quiet = Annotated[
    bool, option("--quiet", "-q", metavar="", panel=OUTPUT, text="Print errors only.")
]
Debug = Annotated[
    bool, option("--debug", metavar="", panel=OUTPUT, text="Show the traceback of an error.")
]
Predictor = Annotated[
    str | None,
    option(
        "--predictor",
        "-p",
        panel=PREDICTOR,
        metavar="MODEL",
        text="A .skops, .onnx or .joblib file, or module:object.",
    ),
]
Trust = Annotated[
    list[str] | None,
    option(
        "--trust",
        panel=PREDICTOR,
        metavar="TYPE",
        text="A further type that a skops file may hold. Repeatable.",
    ),
]
TrustPickle = Annotated[
    bool,
    option(
        "--trust-pickle",
        panel=PREDICTOR,
        metavar="",
        text="Read a .joblib file, which runs the code in it.",
    ),
]
OwnClasses = Annotated[
    list[str] | None,
    option(
        "--class",
        panel=MODEL,
        metavar="MODULE:NAME",
        text="A class of your own that the archive holds, such as an engine. Repeatable.",
    ),
]
MaxRows = Annotated[
    int,
    option(
        "--max-rows",
        metavar="N",
        least=2,
        text="Use at most this many rows of the file, a random sample.",
    ),
]
Seed = Annotated[int, option("--seed", metavar="N", text="Seed of all that is random.")]
Target = Annotated[str, option("--target", "-t", metavar="COLUMN", text="Column of true values.")]
TargetAgain = Annotated[
    str | None,
    option("--target", "-t", metavar="COLUMN", text="Column of true values; by default as in fit."),
]
Archive = Annotated[
    Path, typer.Argument(metavar="ARCHIVE", show_default=False, help="A file written by fit.")
]
AllowAnotherPredictor = Annotated[
    bool,
    option(
        "--allow-another-predictor",
        panel=PREDICTOR,
        metavar="",
        text="Accept a predictor that answers differently than in fit; nothing is guaranteed then.",
    ),
]
AllowUsedRows = Annotated[
    bool,
    option(
        "--allow-rows-used-in-fit",
        metavar="",
        text="Accept rows that were used to fit; nothing is proven then.",
    ),
]
NoRows = Annotated[
    bool,
    option(
        "--no-rows",
        panel=OUTPUT,
        metavar="",
        text="Keep no digests and no rows of fit in the archive.",
    ),
]
KeyFile = Annotated[
    Path | None,
    option(
        "--key-file",
        metavar="FILE",
        text="Key, at least 32 bytes, that archives are signed with; others are refused.",
    ),
]
NewArchive = Annotated[
    Path, option("--output", "-o", metavar="ARCHIVE", text="The archive to write.")
]
Data = Annotated[
    Path,
    typer.Argument(metavar="DATA", show_default=False, help="A CSV, Parquet or Arrow file."),
]
Prediction = Annotated[
    str | None,
    option(
        "--prediction",
        panel=PREDICTOR,
        metavar="COLUMN",
        text="Column of predictions made elsewhere; instead of a model.",
    ),
]
Feature = Annotated[
    list[str] | None,
    option("--feature", metavar="COLUMN", text="Use these columns only. Repeatable."),
]
Drop = Annotated[
    list[str] | None,
    option("--drop", metavar="COLUMN", text="Leave this column out. Repeatable."),
]
LossName = Annotated[
    str | None,
    option(
        "--loss",
        panel=MODEL,
        metavar="LOSS",
        text=f"{', '.join(LOSSES)}. Without it absolute, which suits no classifier.",
    ),
]
LossAgain = Annotated[
    str | None, option("--loss", metavar="LOSS", text="module:object, if fit was given one.")
]
EngineName = Annotated[
    str, option("--engine", panel=MODEL, metavar="ENGINE", text=f"{', '.join(ENGINES)}.")
]
CalibrationSize = Annotated[
    float | None,
    option("--calibration-size", panel=MODEL, text="Share of the rows that calibrates; a quarter."),
]
Alphas = Annotated[
    list[float] | None,
    option(
        "--alpha",
        panel=MODEL,
        text="Share of losses that may exceed their bound. Repeatable. \\[default: 0.1]",
    ),
]
RuleName = Annotated[
    Rule | None,
    option(
        "--rule",
        panel=RULE,
        metavar="RULE",
        text="tau: accept if the bound is at most tau. certify: P(bad | accepted) <= eta. "
        "none. \\[default: tau if --tau is given]",
    ),
]
ScoreName = Annotated[
    Thresholded,
    option(
        "--score",
        panel=RULE,
        metavar="SCORE",
        text="What the rule thresholds: tail, exceedance or bound.",
    ),
]
TAU = option("--tau", panel=RULE, text="A loss above is bad.")
ETA = option("--eta", panel=RULE, text="Share of bad rows allowed among the accepted.")
Delta = Annotated[
    float, option("--delta", panel=RULE, text="Chance that the certificate is wrong.")
]
Starts = Annotated[
    list[float] | None,
    option(
        "--starts",
        panel=RULE,
        metavar="SHARE",
        text="Share of the rows where a sequence of tests begins, chosen without their losses. "
        "Repeatable.",
    ),
]
AllowEmpty = Annotated[
    bool,
    option(
        "--allow-empty",
        panel=RULE,
        metavar="",
        text="Write a certified rule even if it accepts nothing; otherwise that is exit code 3.",
    ),
]
Scored = Annotated[
    Path, option("--output", "-o", metavar="FILE", text="CSV, Parquet or Arrow file to write.")
]
Keep = Annotated[
    list[str] | None,
    option("--keep", metavar="COLUMN", text="Pass this column through. Repeatable."),
]
KeepAll = Annotated[bool, option("--keep-all", metavar="", text="Pass all columns through.")]
Prefix = Annotated[
    str, option("--prefix", metavar="TEXT", text="Put before the names of the new columns.")
]
BadRowsChoice = Annotated[
    BadRows,
    option(
        "--bad-rows",
        metavar="fail|flag",
        text="What becomes of rows with infinite values or no prediction: the run fails, or they "
        "are flagged, with infinite bounds.",
    ),
]
BlockRows = Annotated[
    int,
    option(
        "--block-rows",
        metavar="N",
        least=1,
        text="Rows scored at a time; what a killed run loses at most.",
    ),
]
