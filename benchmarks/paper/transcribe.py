"""Read the paper's result tables from its source; writes paper.json.

``python -m benchmarks.paper.transcribe locus.tex``; the file is committed, so once was enough.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("paper.json")
LOCUS = ["LOCUS BART", "LOCUS BART gamma", "LOCUS MDN", "LOCUS MDN gamma"]
ALL = ["IFlag", "VARNet", *LOCUS]
# Label in the source: key here, title, columns.
TABLES = {
    "condtail_tuned": ("lambda_rate", "Tuned conditional large-loss rate (LOCUS-lambda)", ALL),
    "marginal_coverage_locus": ("coverage", "Marginal coverage", LOCUS),
    "acceptance_locus_tau": ("tau_acceptance", "Acceptance at lambda = tau", LOCUS),
    "condtail_locus_tau": ("tau_rate", "Conditional large-loss rate at lambda = tau", LOCUS),
    "acceptance_locus_lambda": ("lambda_acceptance", "Tuned acceptance (LOCUS-lambda)", ALL),
    "acceptance_locus_alpha": ("alpha_acceptance", "Tuned acceptance (LOCUS-alpha)", ALL),
    "condtail_locus_alpha": (
        "alpha_rate",
        "Tuned conditional large-loss rate (LOCUS-alpha)",
        ALL,
    ),
}
CELL = re.compile(r"(--|[\d.]+) \((--|[\d.]+); (--|[\d.]+)\)")
HOMES = ["locus_flag", "outlier_flag", "prediction", "price", "loss", "U_0.5", "U_0.1", "sd"]


def rows(source: str, label: str) -> list[list[str]]:
    """Cells of the table with this label, text marks removed."""
    tables = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, re.DOTALL)
    (table,) = [text for text in tables if f"\\label{{tab:{label}}}" in text]
    body = table.split("\\midrule")[1].split("\\bottomrule")[0]
    lines = [re.sub(r"\\textbf|\\addlinespace|[{}]", "", line) for line in body.split("\\\\")]
    return [[cell.strip() for cell in line.split("&")] for line in lines if "&" in line]


def number(text: str) -> float | None:
    return None if text == "--" else float(text)


def read_table(source: str, label: str, columns: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, *cells in rows(source, label):
        if len(cells) != len(columns):
            raise ValueError(f"{label}, {name}: {len(cells)} cells, expected {len(columns)}.")
        values = [[number(part) for part in CELL.fullmatch(cell).groups()] for cell in cells]
        out[name] = dict(zip(columns, values, strict=True))
    if len(out) != 13:
        raise ValueError(f"{label} has {len(out)} datasets, expected 13.")
    return out


def main() -> None:
    source = Path(sys.argv[1]).read_text()
    tables = {
        key: {"title": title, "columns": columns, "rows": read_table(source, label, columns)}
        for label, (key, title, columns) in TABLES.items()
    }
    homes = [
        {
            name: cell if cell in ("yes", "no") else float(cell)
            for name, cell in zip(HOMES, line, strict=True)
        }
        for line in rows(source, "sampled_examples")
    ]
    if len(homes) != 6:
        raise ValueError(f"the homes table has {len(homes)} rows, expected 6.")
    paper = {
        "about": "The paper's tables in percent: median, 5 % and 95 % quantile over 30 runs; null "
        "where it prints dashes. Homes in thousands of dollars.",
        "tables": tables,
        "homes": homes,
    }
    TARGET.write_text(layout(paper) + "\n")


def layout(paper: dict[str, Any]) -> str:
    """JSON with one line per table row."""
    text = json.dumps(paper, indent=1)
    text = re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    return re.sub(r'\{\s+("(?:IFlag|LOCUS BART|locus_flag)":[^{}]*?)\s+\}', _line, text)


def _line(match: re.Match[str]) -> str:
    return "{" + re.sub(r"\s+", " ", match[1]) + "}"


if __name__ == "__main__":
    main()
