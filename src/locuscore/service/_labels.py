"""Labels that a client sends: ids with true values or losses."""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from locuscore.service._ids import checked_ids
from locuscore.service._json_rows import parse_json
from locuscore.service._refusal import RefusalError, check_rows

KEYS = {"ids", "y", "losses", "times", "source"}
LONGEST_TEXT = 10_000
LONGEST_SOURCE = 200
FORM = '{"ids": [...], "y": [...]}, with "losses" instead of "y", and "times" and "source" if known'


@dataclass(frozen=True)
class Labels:
    """Labels of one request, each value checked."""

    ids: list[str]
    y: list[Any] | None
    losses: list[float] | None
    times: list[datetime] | None
    source: str


def parse_labels(body: bytes, max_rows: int) -> Labels:
    """Return the labels of a request; raises `RefusalError` with one sentence."""
    check_rows(body.count(b",") // 4, max_rows)  # before anything is parsed
    content = parse_json(body)
    if not isinstance(content, dict) or not {"ids"} <= content.keys() <= KEYS:
        raise RefusalError(422, f"the body must be one object, {FORM}.")
    if ("y" in content) == ("losses" in content):
        raise RefusalError(422, "a label is the true value y or the loss; send one of them.")
    for name in KEYS - {"source"}:
        if name in content and not isinstance(content[name], list):
            raise RefusalError(422, f"{name} must be a list, with one for each label.")
    n = len(content["ids"])
    check_rows(n, max_rows)
    for name in content.keys() - {"ids", "source"}:
        if len(content[name]) != n:
            raise RefusalError(422, f"{name} has {len(content[name])} entries for {n} ids.")
    return Labels(
        checked_ids(content["ids"], n),
        [_answer(value) for value in content["y"]] if "y" in content else None,
        [_loss(value) for value in content["losses"]] if "losses" in content else None,
        [_time(value) for value in content["times"]] if "times" in content else None,
        _source(content.get("source", "label")),
    )


def _answer(value: Any) -> Any:
    """A true value: a number, a text, true or false, or a list of these."""
    for one in value if isinstance(value, list) else [value]:
        is_short = not isinstance(one, str) or len(one) <= LONGEST_TEXT
        if not isinstance(one, str | int | float) or not is_short:
            raise RefusalError(
                422,
                f"y takes numbers, texts up to {LONGEST_TEXT} characters, true, false, or lists of "
                f"them; got {one!r:.40}. Leave out rows without a label.",
            )
    return value


def _loss(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e300 or not isfinite(value):
        raise RefusalError(422, f"losses takes finite numbers; got {value!r:.40}.")
    return float(value)


def _time(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise RefusalError(
            422, f"times have a zone, such as 2024-01-31T12:00:00Z; got {value!r:.40}."
        ) from None


def _source(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_SOURCE or "\0" in value:
        raise RefusalError(422, f"source is a text of 1 to {LONGEST_SOURCE} characters.")
    return value
