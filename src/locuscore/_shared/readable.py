"""Numbers and texts as people read them."""

import math

MOST_LETTERS = 300  # of a name or a cell
DIGITS, MOST_DIGITS = 4, 7
LARGEST = 1e15


def said(error: BaseException) -> str:
    """What an error says; of a file that cannot be used, its name and why, without a number."""
    if isinstance(error, FileNotFoundError) and error.errno and error.filename:
        return f"there is no file {error.filename}."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def readable(value: float) -> str:
    """A number with thousands separators and four digits; those before the point all stand."""
    if value and not 1e-4 <= abs(value) < LARGEST:  # or no number
        return f"{value:.{DIGITS}g}"
    text = f"{value:,.{_decimals(value)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


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
