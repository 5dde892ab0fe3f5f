"""What a report says in words: the guarantee, the facts, whether the test rows agree."""

from typing import Any

import numpy as np

from locuscore import FlagRule, GroupRule, Scorer, conformal_rank
from locuscore._protocols import Calibration, FloatArray
from locuscore._shared.readable import amount

LEVEL = 0.95
SMALL_P = 0.05  # below it a histogram is called uneven
SMALLEST_P = 1e-15


def guarantee(scorer: Scorer) -> dict[str, Any]:
    """The card, its standing, and plain sentences on what is promised and what is not."""
    rule, calibration = scorer.rule, scorer.locus.calibration_
    sentences = []
    for alpha in scorer.alphas:
        text = calibration.sentence([alpha])
        trouble = calibration.too_few(alpha, scorer.locus.support_.high)
        if trouble is not None:
            text += f" But {trouble}"
        sentences.append(text)
    if rule is None:
        sentences.append("There is no rule: which rows to accept is up to the reader.")
    else:
        sentences.append(f"Rule: {_accepted(rule)}. {rule.guarantee}")
        if rule.assumptions:
            sentences.append("The rule assumes: " + "; ".join(rule.assumptions) + ".")
    hold = "these shares hold"
    if isinstance(rule, GroupRule):
        hold = "the shares of the bounds hold"
    sentences.append(
        f"Not promised: that {hold} in every group or for every single row, or for rows "
        "unlike the calibration rows. Figures from the test rows are estimates unless they say "
        "otherwise."
    )
    standing = "none" if rule is None else rule.standing
    return {"card": scorer.card, "standing": standing, "sentences": sentences}


def _accepted(rule: FlagRule | GroupRule) -> str:
    if isinstance(rule, GroupRule):
        return f"accept a row if its {rule.score} is at most the threshold of its group"
    if rule.threshold == -np.inf:
        return f"no threshold on the {rule.score} was found, so accept nothing"
    if rule.threshold == np.inf:
        return f"accept every row with a finite {rule.score}"
    unit = rule.unit if rule.score.is_in_loss_units else ""
    return f"accept a row if its {rule.score} is at most {amount(rule.threshold, unit, 6)}"


def facts(
    scorer: Scorer, n_rows: int, sample: FloatArray, mean_loss: float, unit: str
) -> list[dict[str, str]]:
    """Data and model, one line each; `sample` holds losses."""
    locus = scorer.locus
    quantiles = np.quantile(sample, [0.5, 0.9, 0.99])
    rows = {"Test rows": f"{n_rows:,}", "Features": f"{locus.n_features_in_:,}"}
    rows["Predictor"] = "none" if locus.predictor_ is None else type(locus.predictor_).__name__
    rows["Loss"] = locus.loss_.name
    rows["Loss model"] = type(locus.engine_).__name__
    rows["Signals of that model"] = scorer.manifest["signals"]
    if hasattr(locus, "fit_rows_"):
        rows["Rows that model the loss (D1)"] = f"{len(locus.fit_rows_):,}"
    which = "(D2)" if locus.calibration_.holds_rows_out else "(no D2)"
    rows[f"Rows that calibrate {which}"] = f"{locus.calibration_.n:,}"
    rows["Alphas"] = ", ".join(f"{alpha:g}" for alpha in scorer.alphas)
    rows["Mean loss"] = amount(mean_loss, unit)
    rows["Loss at 50, 90 and 99 %"] = ", ".join(amount(q, unit) for q in quantiles.tolist())
    if len(sample) < n_rows:
        rows["Rows in pictures and quantiles"] = f"{len(sample):,}, a uniform random sample"
    versions = {k: v for k, v in scorer.manifest["written_by"].items() if k in _SHOWN_VERSIONS}
    rows["Versions"] = ", ".join(f"{name} {text}" for name, text in versions.items())
    return [{"name": name, "value": value} for name, value in rows.items()]


_SHOWN_VERSIONS = ("locuscore", "python", "numpy", "scikit-learn")


def coverage(calibration: Calibration, alpha: float, n: int, covered: int) -> dict[str, Any]:
    """Whether the share of test rows within their bound is what a valid calibration would show."""
    law = calibration.coverage_law(alpha, n)
    rate = covered / n
    # Not every calibration has a law, and of some only a few rows have no finite bound.
    if law is None and (covered < n or calibration.too_few(alpha) is None):
        expected = 1.0 - calibration.promised(alpha)
        low, high, p_value, agrees = 0.0, 1.0, 1.0, True
    elif law is None:
        low = high = expected = p_value = 1.0
        agrees = covered == n
    else:
        low, high = (law.ppf(share) / n for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        expected = conformal_rank(calibration.n, alpha) / (calibration.n + 1)
        p_value = smallest_p(law.p_value(covered))
        agrees = low <= rate <= high
    found = {
        "alpha": alpha,
        "n": n,
        "covered": covered,
        "rate": rate,
        "low": low,
        "high": high,
        "level": LEVEL,
        "agrees": bool(agrees),
        "p_value": p_value,
        "expected": expected,
    }
    return found | {"sentence": _coverage_sentence(found)}


HIGHER = (
    "But more losses than expected are within their bound: it is wider than it needs to be, or "
    "losses tie."
)


def is_high(c: dict[str, Any]) -> bool:
    """Whether more losses are within their bound than a valid calibration would show."""
    return not c["agrees"] and bool(c["rate"] > c["high"])


def _coverage_sentence(c: dict[str, Any]) -> str:
    text = (
        f"{c['covered']:,} of {c['n']:,} test losses ({exact_percent(c['rate'])}) are within "
        f"their bound at alpha = {c['alpha']:g}"
    )
    if c["expected"] == 1.0 and c["agrees"]:  # at no other bound
        return text + (
            ". That says nothing: calibration rows are too few for this alpha, so the bound is the "
            "largest loss there can be."
        )
    if c["low"] == 0.0 and c["high"] == 1.0 and c["expected"] <= 0.0:
        return text + "; no share is promised."
    if c["low"] == 0.0 and c["high"] == 1.0:
        return text + f"; at least {exact_percent(c['expected'])} are promised on average."
    between = f"between {exact_percent(c['low'])} and {exact_percent(c['high'])}"
    if c["agrees"]:
        return f"{text}. This agrees with the guarantee: 95 of 100 valid splits fall {between}."
    if c["rate"] < c["low"]:
        return (
            f"{text}. This is low: 95 of 100 valid splits fall {between} "
            f"({p_text(c['p_value'])}). The test rows may be unlike the calibration rows."
        )
    return (
        f"{text}. This is higher than expected: 95 of 100 valid splits fall {between} "
        f"({p_text(c['p_value'])}). The guarantee holds, but the bounds are wider than they need "
        "to be for rows like these, or losses tie."
    )


def simultaneous(n_parts: int, n_partitions: int = 1, has_clusters: bool = False) -> str:
    """What the intervals of the parts of one partition, or of several, say together."""
    if n_parts == n_partitions == 1:
        text = f"The interval holds with confidence {percent(LEVEL)}."
    else:
        all_of = f"The {n_parts} intervals"
        if n_partitions > 1:
            all_of = f"These {n_parts} intervals and those of the other parts"
        text = (
            f"{all_of} are simultaneous: with confidence {percent(LEVEL)} every one of them "
            "contains the share in its part."
        )
    if has_clusters:
        text += " They take rows as independent, but these come in clusters: read them as rough."
    return text


def pit_sentence(p_value: float, counts: list[int]) -> str:
    """How the histogram of the losses' places in their own laws reads."""
    text = (
        "Where each loss falls in the loss model's own law for its row; even bars mean that the "
        "model knows the law of the loss. The guarantee does not need that."
    )
    if p_value > SMALL_P:
        return f"{text} These bars are even up to chance ({p_text(p_value)})."
    n = len(counts) // 4
    total = sum(counts)
    low, high = sum(counts[:n]) / total, sum(counts[-n:]) / total
    if low > 0.27 and high > 0.27:
        shape = "both ends are too frequent: the laws are too narrow"
    elif max(low, high) < 0.23:
        shape = "the middle is too frequent: the laws are too wide"
    elif abs(high - low) < 0.02:
        shape = "the difference is small"
    else:
        shape = f"losses are {'larger' if high > low else 'smaller'} than the model expects"
    return f"{text} These are uneven ({p_text(p_value)}): {shape}."


def smallest_p(p_value: float) -> float:
    """A p-value that is never zero: below 1e-15 floating point says no more than that."""
    return max(p_value, SMALLEST_P)


def p_text(p_value: float) -> str:
    """A p-value in words."""
    small = p_value <= SMALLEST_P
    return f"p < {SMALLEST_P:.0e}" if small else f"p = {p_value:.2g}"


def exact_percent(share: float) -> str:
    """Two decimals always, so that a coverage and its interval can be compared."""
    return f"{100 * share:.2f} %"


def percent(share: float) -> str:
    """A share as it was written."""
    return f"{100 * share:.4g} %"
