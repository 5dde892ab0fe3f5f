"""Two reports side by side, such as last quarter's and this quarter's, and what differs by chance.

Each share of one report is compared with the same share of the other by Fisher's exact test: if
both are of independent rows and the same in truth, the p-value is at most p with probability at
most p, whatever the share. The main shares are judged together by Bonferroni-Holm at half of the
error, those of the parts at the other half: if nothing has changed, the probability that anything
is called a difference is at most 5 %.
"""

import datetime
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from locuscore._shared.files import write_atomically
from locuscore._shared.multiple_tests import holm
from locuscore._shared.readable import day_text
from locuscore._shared.shown import cut
from locuscore.report._compare_words import describe, headline
from locuscore.report._equal_shares import equal_shares_p_value
from locuscore.report._parts import OTHERS
from locuscore.report._plain import Wording

if TYPE_CHECKING:
    from locuscore.report import Report

ERROR = 0.05
FORMAT = 2
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What two reports say beside each other, which can be written as a page or as JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.report import compare, report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 2))
    >>> y = X[:, 1] * rng.normal(size=600)
    >>> locus = Locus(lambda X: 0 * X[:, 0], engine=Scale(), random_state=0).fit(X[:300], y[:300])
    >>> last, this = (report(Scorer(locus), X[i : i + 150], y[i : i + 150]) for i in (300, 450))
    >>> compare(last, this)
    Comparison('Locus reports compared')
      Nothing changed by more than chance explains.
    """

    summary: dict[str, Any]

    def to_html(self) -> str:
        """The page: one file that needs nothing else."""
        from locuscore.report._html import comparison_page  # noqa: PLC0415 - as for a report

        return comparison_page(self.summary)

    def to_json(self) -> str:
        """The comparison as JSON."""
        return json.dumps(self.summary, allow_nan=False)

    def write(self, path: str | Path) -> None:
        """Write the page; complete, or the old file is untouched."""
        write_atomically(path, lambda file: file.write(self.to_html().encode()))

    @property
    def differs(self) -> bool:
        """Whether anything differs by more than chance explains."""
        return bool(self.summary["n_differences"])

    def __repr__(self) -> str:
        title = cut(str(self.summary["title"]), 80)
        return f"Comparison({title!r})\n  {cut(self.summary['headline'], 180)}"

    def __str__(self) -> str:
        found = self.summary
        return "\n".join([found["headline"], *(part["sentence"] for part in found["shares"])])


def compare(
    before: "Report | Mapping[str, Any] | str | Path",
    after: "Report | Mapping[str, Any] | str | Path",
    *,
    title: str = "Locus reports compared",
) -> Comparison:
    """Compare two reports: what changed by more than chance explains?

    Parameters
    ----------
    before, after
        Reports, their summaries, or files of them: the page or the JSON. Their rows must not be the
        same ones.
    title
        Title of the page.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.report import compare, report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2500, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=2500)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000])
    >>> last = report(Scorer(locus), X[1000:1700], y[1000:1700])
    >>> this = report(Scorer(locus), X[1700:], 2 * y[1700:])
    >>> compare(last, this).differs
    True
    """
    old, new = _summary(before, "before"), _summary(after, "after")
    try:
        return _compared(old, new, title)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            "before and after must be reports as this version makes them; a part of one is "
            f"missing, or not what it should be ({type(error).__name__}: {error}). Make it again."
        ) from error


def _compared(old: Mapping[str, Any], new: Mapping[str, Any], title: str) -> Comparison:
    wording = Wording(new["noun"], new["unit"], str(new["explorer"]["loss"]))
    independent = not (old["has_clusters"] or new["has_clusters"])
    shares = _judged(_shares(old, new), independent)
    parts = _parts(old, new, independent)
    names = _names(old, new)
    for share in shares:
        share["sentence"] = describe(share, wording)
    is_worse = any(_is_worse(share) for share in shares)
    n_differences = sum(part["differs"] for part in [*shares, *_rows_of(parts)])
    return Comparison(
        {
            "format": FORMAT,
            "title": title,
            "unit": new["unit"],
            "noun": new["noun"],
            "created": str(datetime.date.today()),
            "headline": headline(shares, _rows_of(parts), is_worse),
            "kind": "bad" if is_worse else "warn" if n_differences else "good",
            "notes": _notes(old, new, independent),
            "n_differences": n_differences,
            "error": ERROR,
            "reports": [_side(old, names[0]), _side(new, names[1])],
            "measure": new["measure"],
            "shares": shares,
            "parts": parts,
        }
    )


def _summary(given: Any, name: str) -> Mapping[str, Any]:
    """The summary of a report, of whatever form."""
    found = getattr(given, "summary", given)
    if isinstance(found, str | Path):
        found = _read(Path(found))
    if not isinstance(found, Mapping) or not {"format", "verdict", "measure"} <= set(found):
        is_old = isinstance(found, Mapping) and found.get("format") == 1
        why = "it was written by an older version; make it again" if is_old else "it is none"
        raise ValueError(
            f"{name} must be a report, its summary, or the file of one (page or JSON); {why}."
        )
    return found


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if not text.lstrip().startswith("{"):
        inside = DATA.search(text)
        if inside is None:
            raise ValueError(f"{path} is no page of a report, nor its summary as JSON.")
        text = inside[1]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no summary of a report as JSON: {error}.") from None


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, str]:
    """What the two reports are called: the days of their rows, or when they were made."""

    def days(summary: Mapping[str, Any]) -> str:
        ends = [summary["provenance"][key] for key in ("first_day", "last_day")]
        if None in ends:
            return f"report of {_day(summary['created'])}"
        return f"{_day(ends[0])} to {_day(ends[1])}"

    first, second = days(old), days(new)
    if first == second:
        first, second = old["title"], new["title"]
    return (first, second) if first != second else ("before", "after")


def _day(text: str) -> str:
    return day_text(datetime.date.fromisoformat(text))


def _side(summary: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What is shown of one report."""
    kept = ("title", "created", "n_rows", "provenance", "money")
    return {key: summary[key] for key in kept} | {
        "name": name,
        "headline": summary["verdict"]["headline"],
        "kind": summary["verdict"]["kind"],
    }


def _shares(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The share accepted, and what is claimed in both reports."""
    found = []
    if old["money"]["flagged"] and new["money"]["flagged"]:
        ends = [_pair(side["money"]["accepted"]["n"], side["n_rows"]) for side in (old, new)]
        found.append(
            {"kind": "acceptance", "tau": None, "promised": None, "where": "", **_both(ends)}
        )
    known = {_key(claim): claim for claim in old["verdict"]["claims"]}
    for claim in new["verdict"]["claims"]:
        last = known.get(_key(claim))
        if last is None or last["observed"] is None or claim["observed"] is None:
            continue
        ends = [_observed(part) for part in (last, claim)]
        kept = {key: claim[key] for key in ("kind", "tau", "promised", "where", "alpha")}
        found.append({**kept, "verdicts": [last["verdict"], claim["verdict"]], **_both(ends)})
    return found


def _key(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(claim[key] for key in ("kind", "alpha", "tau", "where", "standing"))


def _observed(claim: Mapping[str, Any]) -> dict[str, Any]:
    """A share as counts; a mean, or a share that weighs rows, has none."""
    n, observed = claim["n"], claim["observed"]
    k = round(observed * n)
    is_count = claim["kind"] != "mean loss" and n > 0 and abs(k / n - observed) < 1e-9
    return {"k": k if is_count else None, "n": n, "value": observed}


def _pair(k: int, n: int) -> dict[str, Any]:
    return {"k": k, "n": n, "value": k / n if n else None}


def _both(ends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"before": ends[0], "after": ends[1]}


def _judged(shares: Sequence[dict[str, Any]], independent: bool) -> list[dict[str, Any]]:
    """Each share with its p-value, and whether it differs by more than chance explains."""
    p_values = [_p_value(share) if independent else None for share in shares]
    tested = [i for i, p in enumerate(p_values) if p is not None]
    differs = np.zeros(len(shares), dtype=bool)
    if tested:
        differs[tested] = holm([p_values[i] or 0.0 for i in tested], ERROR / 2)
    return [
        {**share, "p_value": p, "differs": bool(is_other)}
        for share, p, is_other in zip(shares, p_values, differs, strict=True)
    ]


def _p_value(share: Mapping[str, Any]) -> float | None:
    old, new = share["before"], share["after"]
    if old["k"] is None or new["k"] is None or not (old["n"] and new["n"]):
        return None
    return equal_shares_p_value(old["k"], old["n"], new["k"], new["n"])


def _parts(
    old: Mapping[str, Any], new: Mapping[str, Any], independent: bool
) -> list[dict[str, Any]]:
    """The groups that both reports show, if both are compared by the same share."""
    if _share_of(old) != _share_of(new):
        return []
    known = {part["column"]: part for part in old["parts"] if not part["is_time"]}
    pairs = [(known[p["column"]], p) for p in new["parts"] if p["column"] in known]
    flat, sizes = [], []
    for last, this in pairs:
        ends, now = _by_group(last["rows"]), _by_group(this["rows"])
        rows = [
            {"group": group}
            | _both([_pair(side["k"], side["of"]) for side in (ends[group], now[group])])
            for group in now
            if group in ends
        ]
        flat += rows
        sizes.append(len(rows))
    judged = iter(_judged(flat, independent))
    return [
        {"name": this["name"], "rows": [next(judged) for _ in range(size)]}
        for (_, this), size in zip(pairs, sizes, strict=True)
    ]


def _share_of(summary: Mapping[str, Any]) -> tuple[Any, ...]:
    """What groups are compared by; of rows above their bounds, also at which level."""
    measure = summary["measure"]
    alpha = summary["coverage"][0]["alpha"] if measure["kind"] == "coverage" else None
    return measure["name"], alpha


def _by_group(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Rows by their group, without those that may not be one group in both reports.

    Small groups are pooled, other ones in another report; a name that was cut may stand for two.
    """
    count = Counter(row["group"] for row in rows)
    return {
        row["group"]: row for row in rows if count[row["group"]] == 1 and row["group"] != OTHERS
    }


def _rows_of(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [row for part in parts for row in part["rows"]]


def _is_worse(share: Mapping[str, Any]) -> bool:
    """Whether more rows go wrong than before, beyond chance."""
    grows = share["differs"] and share["after"]["value"] > share["before"]["value"]
    return bool(grows and share["kind"] != "acceptance")


def _notes(old: Mapping[str, Any], new: Mapping[str, Any], independent: bool) -> list[str]:
    notes = []
    digests = [side["provenance"]["data_digest"] for side in (old, new)]
    if digests[0] and digests[0] == digests[1]:
        notes.append("Both reports are about the same file of rows, so their agreement is none.")
    if old["provenance"]["scorer_digest"] != new["provenance"]["scorer_digest"]:
        notes.append("The two reports are about different scorers.")
    if old["unit"] != new["unit"]:
        notes.append(f"Units differ: {old['unit'] or 'none'} and {new['unit'] or 'none'}.")
    if not independent:
        notes.append("Rows come in clusters, so shares have no exact test here.")
    return notes
