"""A curve of shares with its band, as a small picture for a card."""

from collections.abc import Sequence

from locuscore._shared.cards import class_of, safe

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 48, 24, 24, 42  # room for the numbers and names


def curve_picture(
    x: Sequence[float],
    y: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    names: tuple[str, str],
) -> str:
    """Markup of the picture; `names` are those of the two axes."""
    # The band is wide where little is known: the curve and the middle of the band decide.
    middle = sorted(high)[len(high) // 2]
    most = min(1.0, max(1.15 * max(y), 1.05 * middle, 0.01))

    def at(a: float, b: float) -> tuple[float, float]:
        up = 1 - min(b / most, 1.0)
        return LEFT + a * (WIDTH - LEFT - RIGHT), TOP + up * (HEIGHT - TOP - BOTTOM)

    def points(across: Sequence[float], up: Sequence[float]) -> str:
        places = (at(*pair) for pair in zip(across, up, strict=True))
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in places)

    marks = []
    for i in range(5):
        a, b = at(i / 4, most * i / 4)
        shade = class_of("grid" if i else "axis")
        marks += [
            f'<line{shade} x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{b:.1f}" y2="{b:.1f}"/>',
            f'<text x="{a:.1f}" y="{HEIGHT - 24}" text-anchor="middle">{25 * i} %</text>',
            f'<text x="{LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{_share(i / 4, most)}</text>',
        ]
    across, up = map(safe, names)
    band = f"{points(x, high)} {points(x[::-1], low[::-1])}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{up} by {across}">'
        f"{''.join(marks)}"
        f'<polygon{class_of("band")} points="{band}"/>'
        f'<polyline{class_of("line")} points="{points(x, y)}"/>'
        f'<text{class_of("label")} x="2" y="14">{up}</text>'
        f'<text{class_of("label")} x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{across}'
        "</text></svg>"
    )


def _share(part: float, most: float) -> str:
    digits = 0 if most >= 0.4 else 1 if most >= 0.04 else 2
    return f"{100 * part * most:.{digits}f} %"
