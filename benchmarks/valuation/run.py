"""House valuation: which automated estimates may stand without an appraiser? ``make valuation``.

King County sales of a year. g learns from the first half; the sales after that are labelled rows,
drawn at random into those that fit, those that certify and those on which the report is made. An
estimate is bad if it is more than 20 % of the price away. `docs/valuation.md` tells the story and
shows the lines of this file; this file writes the tables. About a minute.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.datasets import FOLDER
from benchmarks.pages import write_section
from locuscore import FlagRule, GroupRule, Locus, Scorer, rows_for_certificate
from locuscore.report import Report, report

PAGE = Path(__file__).with_name("RESULTS.md")
TAU, ETA, DELTA = 0.2, 0.1, 0.1
BANDS = ["low", "middle", "high"]


def sales() -> pd.DataFrame:
    """Sales in the order of time, with the area of each."""
    homes = pd.read_csv(FOLDER / "homes.csv.gz", parse_dates=["date"])
    homes = homes.sort_values(["date", "id"], ignore_index=True)
    in_city = homes["zipcode"].between(98100, 98199)
    homes["area"] = np.select([in_city, homes["lat"] < 47.5], ["Seattle", "south"], "east")
    return homes


def valued(homes: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series, TransformedTargetRegressor]:
    """Later sales with their segment, their prices, and the model of the earlier ones."""
    features = homes.columns.drop(["id", "date", "price", "area"])
    earlier, later = homes[: len(homes) // 2], homes[len(homes) // 2 :]
    boosted = HistGradientBoostingRegressor(random_state=0)
    g = TransformedTargetRegressor(boosted, func=np.log, inverse_func=np.exp)
    g.fit(earlier[features], earlier["price"])
    estimate = pd.Series(g.predict(later[features]), later.index)
    limits = np.quantile(g.predict(earlier[features]), [1 / 3, 2 / 3])
    band = np.array(BANDS)[np.searchsorted(limits, estimate)]
    later = later.assign(segment=later["area"] + ", " + band)
    return later[[*features, "area", "segment"]], later["price"], g


class Model:
    """The valuation model as it is deployed: it reads its own columns of a row."""

    def __init__(self, g: TransformedTargetRegressor) -> None:
        self.g = g

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.g.predict(X[self.g.regressor_.feature_names_in_])


def happened(
    rule: FlagRule | GroupRule, X: pd.DataFrame, y: pd.Series, locus: Locus
) -> pd.DataFrame:
    """Which rows are accepted, which are bad, and where they are."""
    flagged = Scorer(locus, rule)(X)["flag"].to_numpy(bool)
    bad = np.asarray(locus.losses(X, y)) > TAU
    return pd.DataFrame({"accepted": ~flagged, "bad": bad, "segment": X["segment"].to_numpy(str)})


def share(part: pd.DataFrame) -> str:
    """The bad share of accepted rows, with its upper 95 % limit."""
    n, k = len(part), int(part["bad"].sum())
    if n == 0:
        return "nothing accepted"
    high = 1.0 if k == n else beta.ppf(0.95, k + 1, n - k)
    return f"{k / n:.1%} ({k} of {n}; at most {high:.1%})"


def page(each: pd.DataFrame, whole: pd.DataFrame, evidence: Report, plan: int) -> list[str]:
    lines = [
        "## Segment by segment",
        "",
        f"Made by `make valuation`. {len(each):,} test rows. Bad: the estimate is more than "
        f"{TAU:.0%} of the price away. Promised: at most {ETA:.0%} bad among the accepted, in all "
        f"segments at once with confidence {1 - DELTA:.0%}. Each limit of a share holds with 95 %.",
        "",
        "| segment | rows | bad of all | accepted | bad of accepted | one rule for all: accepted "
        "| bad of accepted |",
        "|---|---:|---:|---:|---|---:|---|",
    ]
    for name, rows in [*each.groupby("segment"), ("**all**", each)]:
        other = whole.loc[rows.index]
        lines.append(
            f"| {name} | {len(rows):,} | {rows['bad'].mean():.1%} | {rows['accepted'].mean():.0%} "
            f"| {share(rows[rows['accepted']])} | {other['accepted'].mean():.0%} "
            f"| {share(other[other['accepted']])} |"
        )
    lines += [
        "",
        f"Rows to draw for a certificate at one threshold (5 % bad, 70 % accepted): {plan}.",
        "",
        "The report says:",
        "",
    ]
    return lines + [f"* {line}" for line in str(evidence).splitlines() if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="write the report's HTML file here")
    options = parser.parse_args()
    X, y, g = valued(sales())
    rows = np.random.default_rng(0).permutation(len(X))
    fit, certifying, test = np.split(rows, [3_000, 8_500])

    locus = Locus(Model(g), loss="relative", random_state=0)
    locus.fit(X.iloc[fit], y.iloc[fit])
    rule = locus.certify_groups("segment", TAU, ETA, DELTA, X.iloc[certifying], y.iloc[certifying])
    scorer = Scorer(locus, rule, alphas=(0.5, 0.1))
    evidence = report(scorer, X.iloc[test], y.iloc[test], groups="segment", title="House valuation")
    plan = rows_for_certificate(ETA, DELTA, bad_rate=0.05, acceptance=0.7)

    if options.report:
        evidence.write(options.report)
    new = X.iloc[test], y.iloc[test]
    one = locus.certify(TAU, ETA, DELTA, X.iloc[certifying], y.iloc[certifying])
    both = happened(rule, *new, locus), happened(one, *new, locus)
    write_section(PAGE, page(*both, evidence, plan.rows))


if __name__ == "__main__":
    main()
