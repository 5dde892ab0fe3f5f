"""The options of all commands; `_option_values` has what they mean."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from locuscore.engines import KEPT, NAMES

# The engines of `Locus` that an archive can keep.
ENGINES = tuple(name for name, engine in NAMES.items() if engine in KEPT)
NAMED_LOSSES = (
    *("absolute", "squared", "relative", "zero_one", "log", "brier"),
    *("edit", "f1", "graded"),
)
LOSSES = (*NAMED_LOSSES, "pinball:LEVEL", "cost_per_unit:OVER,UNDER", "module:object")
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
CALIBRATION = "The calibration"


def option(
    names: str,
    metavar: str,
    text: str,
    panel: str | None = None,
    *,
    least: int | None = None,
    most: int | None = None,
    shown: Sequence[str] = (),
) -> Any:
    """Return an option with its names, such as ``--seed`` or ``--target -t``, and a help text.

    `shown` are values that a shell completes; others may be given.
    """

    def complete(incomplete: str) -> list[str]:
        return [value for value in shown if value.startswith(incomplete)]

    return typer.Option(
        *names.split(),
        metavar=metavar,
        min=least,
        max=most,
        help=text,
        rich_help_panel=panel,
        autocompletion=complete if shown else None,
    )


def switch(names: str, text: str, panel: str | None = None) -> Any:
    """Return an option without a value."""
    return option(names, "", text, panel)


def argument(metavar: str, text: str) -> Any:
    """Return an argument that must be given."""
    return typer.Argument(metavar=metavar, show_default=False, help=text)


Json = Annotated[bool, switch("--json", "Print one JSON object.", OUTPUT)]
Quiet = Annotated[bool, switch("--quiet -q", "Print errors only.", OUTPUT)]
Debug = Annotated[bool, switch("--debug", "Show the traceback of an error.", OUTPUT)]
Archive = Annotated[Path, argument("ARCHIVE", "A file written by fit.")]
Data = Annotated[
    Path, argument("DATA", "A CSV, Parquet or Arrow file, or a folder of Parquet files.")
]
Rows = Annotated[
    str,
    argument("DATA", "A CSV, Parquet or Arrow file, or a folder of Parquet files; path or URL."),
]
NewArchive = Annotated[Path, option("--output -o", "ARCHIVE", "The archive to write.")]
Scored = Annotated[
    str,
    option(
        "--output -o",
        "PLACE",
        "CSV, Parquet or Arrow file to write, or, without an ending, a folder of Parquet files; "
        "path or URL.",
    ),
]
KeyFile = Annotated[
    Path | None,
    option(
        "--key-file",
        "FILE",
        "Key, at least 32 bytes, that archives are signed with; others are refused.",
    ),
]
NoRows = Annotated[
    bool, switch("--no-rows", "Keep no digests and no rows of fit in the archive.", OUTPUT)
]
Target = Annotated[str, option("--target -t", "COLUMN", "Column of true values.")]
TargetAgain = Annotated[
    str | None, option("--target -t", "COLUMN", "Column of true values; by default as in fit.")
]
Feature = Annotated[
    list[str] | None, option("--feature", "COLUMN", "Use these columns only. Repeatable.")
]
Drop = Annotated[list[str] | None, option("--drop", "COLUMN", "Leave this column out. Repeatable.")]
MaxRows = Annotated[
    int,
    option("--max-rows", "N", "Use at most this many rows of the file, a random sample.", least=2),
]
Seed = Annotated[int, option("--seed", "N", "Seed of all that is random.")]
AllowUsedRows = Annotated[
    bool,
    switch(
        "--allow-rows-used-in-fit", "Accept rows that were used to fit; nothing is proven then."
    ),
]

Prediction = Annotated[
    str | None,
    option(
        "--prediction",
        "COLUMN",
        "Column of predictions made elsewhere; instead of a model.",
        PREDICTOR,
    ),
]
Predictor = Annotated[
    str | None,
    option(
        "--predictor -p",
        "MODEL",
        "A .skops, .json (xgboost), .txt (LightGBM), .cbm (CatBoost), .onnx or .joblib file, or "
        "module:object.",
        PREDICTOR,
    ),
]
Trust = Annotated[
    list[str] | None,
    option("--trust", "TYPE", "A further type that a skops file may hold. Repeatable.", PREDICTOR),
]
TrustPickle = Annotated[
    bool, switch("--trust-pickle", "Read a .joblib file, which runs the code in it.", PREDICTOR)
]
AllowAnotherPredictor = Annotated[
    bool,
    switch(
        "--allow-another-predictor",
        "Accept a predictor that answers differently than in fit; nothing is guaranteed then.",
        PREDICTOR,
    ),
]

LossName = Annotated[
    str | None,
    option(
        "--loss",
        "LOSS",
        f"{', '.join(LOSSES)}. Without it absolute, which suits no classifier.",
        MODEL,
        shown=NAMED_LOSSES,
    ),
]
LossUnit = Annotated[
    str, option("--unit", "TEXT", "What losses are measured in, such as dollars.", MODEL)
]
LossAgain = Annotated[str | None, option("--loss", "LOSS", "module:object, if fit was given one.")]
EngineName = Annotated[
    str, option("--engine", "ENGINE", f"{', '.join(ENGINES)}.", MODEL, shown=ENGINES)
]
OwnClasses = Annotated[
    list[str] | None,
    option(
        "--class",
        "MODULE:NAME",
        "A class of your own that the archive holds, such as an engine. Repeatable.",
        MODEL,
    ),
]
CalibrationSize = Annotated[
    float | None,
    option(
        "--calibration-size",
        "X",
        "Share that calibrates; by default half to an eighth.",
        MODEL,
    ),
]
GroupColumns = Annotated[
    list[str] | None,
    option(
        "--groups",
        "COLUMN",
        "Keep the promise in every group of this column. Repeatable: in the groups of each.",
        CALIBRATION,
    ),
]
PoolBelow = Annotated[
    int | None,
    option(
        "--pool-below",
        "N",
        "Groups with fewer rows in the part that fits the loss model share one pool; goes with "
        "--groups.",
        CALIBRATION,
        least=2,
    ),
]
ClusterColumn = Annotated[
    str | None,
    option(
        "--clusters",
        "COLUMN",
        "Rows with the same value, such as a day or a customer, stay together; no feature.",
        CALIBRATION,
    ),
]
ClustersAgain = Annotated[
    str | None,
    option(
        "--clusters",
        "COLUMN",
        "Clusters of these rows; needed if fit was given --clusters. Whole clusters count then.",
        CALIBRATION,
    ),
]
LargestCluster = Annotated[
    int | None,
    option(
        "--largest-cluster",
        "N",
        "No cluster has more rows; the promise is then for all rows of new clusters. Goes with "
        "--clusters.",
        CALIBRATION,
        least=1,
    ),
]
OutOfBagSwitch = Annotated[
    bool,
    switch(
        "--out-of-bag",
        "All rows model and all calibrate, in one forest; a heuristic, nothing is promised.",
        CALIBRATION,
    ),
]
GroupsOfRule = Annotated[
    str | None,
    option(
        "--groups",
        "COLUMN",
        "Certify each group of this column, a feature; the rule then has a threshold for each.",
        RULE,
    ),
]
TargetRows = Annotated[
    Path | None,
    option(
        "--target-rows",
        "FILE",
        "Unlabelled rows of the mix that new rows will have; the calibration is weighted for it.",
        CALIBRATION,
    ),
]
Folds = Annotated[
    int | None,
    option(
        "--cross-fit",
        "K",
        "K folds, so that all rows model and all calibrate; the floor is lower.",
        CALIBRATION,
        least=2,
    ),
]
HalfLife = Annotated[
    float | None,
    option(
        "--half-life",
        "ROWS",
        "A row this many rows older counts half as much; rows are in order of time.",
        CALIBRATION,
    ),
]
DropRule = Annotated[
    bool, switch("--drop-rule", "Leave the archive's rule out, also if it would hold.", RULE)
]
Alphas = Annotated[
    list[float] | None,
    option(
        "--alpha",
        "X",
        "Share of losses that may exceed their bound. Repeatable. \\[default: 0.1]",
        MODEL,
    ),
]

RuleName = Annotated[
    Rule | None,
    option(
        "--rule",
        "RULE",
        "tau: accept if the bound is at most tau. certify: P(bad | accepted) <= eta. none. "
        "\\[default: tau if --tau is given]",
        RULE,
    ),
]
ScoreName = Annotated[
    Thresholded,
    option("--score", "SCORE", "What the rule thresholds: tail, exceedance or bound.", RULE),
]
TAU = option("--tau", "X", "A loss above is bad.", RULE)
ETA = option("--eta", "X", "Share of bad rows allowed among the accepted.", RULE)
Delta = Annotated[float, option("--delta", "X", "Chance that the certificate is wrong.", RULE)]
Starts = Annotated[
    list[float] | None,
    option(
        "--starts",
        "SHARE",
        "Share of the rows where a sequence of tests begins, chosen without their losses. "
        "Repeatable.",
        RULE,
    ),
]
AllowEmpty = Annotated[
    bool,
    switch(
        "--allow-empty",
        "Write a certified rule even if it accepts nothing; otherwise that is exit code 3.",
        RULE,
    ),
]

Keep = Annotated[
    list[str] | None, option("--keep", "COLUMN", "Pass this column through. Repeatable.")
]
KeepAll = Annotated[bool, switch("--keep-all", "Pass all columns through.")]
PartitionBy = Annotated[
    list[str] | None,
    option(
        "--partition-by",
        "COLUMN",
        "Write one subfolder for each value of this column, kept or new, such as flag. Repeatable.",
    ),
]
Prefix = Annotated[str, option("--prefix", "TEXT", "Put before the names of the new columns.")]
BadRowsChoice = Annotated[
    BadRows,
    option(
        "--bad-rows",
        "fail|flag",
        "What becomes of rows with infinite values or no prediction: the run fails, or they are "
        "flagged, with infinite bounds.",
    ),
]
BlockRows = Annotated[
    int,
    option("--block-rows", "N", "Rows scored at a time; what a killed run loses at most.", least=1),
]
