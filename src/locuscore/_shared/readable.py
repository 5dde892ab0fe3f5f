"""Numbers and texts as people read them."""

import datetime
import math
import re

MOST_LETTERS = 300  # of a name or a cell
DIGITS, MOST_DIGITS = 4, 7
AS_TYPED = 8  # digits of a number that somebody chose, such as a tolerance
LARGEST = 1e15
LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
# Units whose sign stands before the number; pages have the same table in templates/numbers.js.
SIGNS = {
    **dict.fromkeys(("$", "dollar", "dollars", "us dollars", "usd"), "$"),
    **dict.fromkeys(("\u20ac", "euro", "euros", "eur"), "\u20ac"),
    **dict.fromkeys(("\u00a3", "gbp", "pounds sterling"), "\u00a3"),
}
CODE = re.compile(
    r"(^|[^a-z])(zip|zipcode|zip_?code|postcode|postal|plz|code|id|uuid|key|year|yr)([^a-z]|$)"
)


def said(error: BaseException) -> str:
    """What an error says; of a file that cannot be used, its name and why, without a number."""
    if isinstance(error, FileNotFoundError) and error.errno and error.filename:
        return f"there is no file {error.filename}."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def readable(value: float, digits: int = DIGITS) -> str:
    """A number with thousands separators and four digits; those before the point all stand."""
    if value and not 1e-4 <= abs(value) < LARGEST:  # or no number
        return f"{value:.{DIGITS}g}"
    text = f"{value:,.{_decimals(value, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(value: float, unit: str = "", digits: int = DIGITS) -> str:
    """A number with its unit, as people write it: $150,000, $12.50, 3.2 kWh."""
    sign = SIGNS.get(unit.strip().lower())
    text = readable(abs(value), digits)
    if sign is None:
        return f"{'-' if value < 0 else ''}{text} {unit}".rstrip()
    if "." in text and abs(value) >= 0.01:
        text = f"{abs(value):,.2f}"
    return f"{'-' if value < 0 else ''}{sign}{text}"


def as_typed(value: float, unit: str = "") -> str:
    """A number that somebody chose, with all its digits, and its unit."""
    return amount(value, unit, AS_TYPED)


def large_amount(value: float, unit: str = "") -> str:
    """As `amount`, but millions and more in words: $28.4 million."""
    for size, name in LARGE:
        if size * 0.9999995 <= abs(value) < LARGEST:
            sign = SIGNS.get(unit.strip().lower())
            text = f"{readable(abs(value) / size)} {name}"
            minus = "-" if value < 0 else ""
            return f"{minus}{sign}{text}" if sign else f"{minus}{text} {unit}".rstrip()
    return amount(value, unit)


def day_text(day: datetime.date) -> str:
    """A day as people write it: 5 May 2026."""
    return f"{day.day} {day:%B} {day.year}"


def is_code(name: object) -> bool:
    """Whether a column holds codes or years by its name, whose digits are not to be grouped."""
    return CODE.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", str(name)).lower()) is not None


def readable_pair(first: float, second: float) -> tuple[str, str]:
    """Two numbers to compare: as many decimals in both, enough to show how they differ.

    Numbers that agree in seven digits look the same.
    """
    size, gap = max(abs(first), abs(second)), abs(first - second)
    if not 1e-4 <= size < LARGEST:
        return readable(first), readable(second)
    decimals = _decimals(size)
    if gap:
        decimals = max(decimals, min(_decimals(gap, 1), _decimals(size, MOST_DIGITS)))
    return f"{first:z,.{decimals}f}", f"{second:z,.{decimals}f}"


def _decimals(value: float, digits: int = DIGITS) -> int:
    """Decimals that leave a number so many digits."""
    return max(digits - 1 - math.floor(math.log10(abs(value))), 0) if value else 0


def shortened(text: str, most: int = MOST_LETTERS) -> str:
    """A name or a cell without its end if it is very long: a page is no place for documents."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"
