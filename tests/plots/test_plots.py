"""Pictures show the data they are given, say what they show, and leave pyplot alone."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import locuscore
from helpers import raises
from locuscore import operating_curve, plots
from locuscore.metrics import exceedance_curve, local_coverage
from locuscore.plots._style import BLUE, VERMILION

pytestmark = pytest.mark.extra

Z = np.array([1.0, 5.0, 2.0, 8.0, 3.0, 0.5])
U = np.array([2.0, 4.0, 3.0, 9.0, np.inf, 1.0])
GRID = np.linspace(0.0, 1.0, 5)

# Every function with arguments that work.
CALLS = {
    "bound_against_loss": lambda **k: plots.bound_against_loss(Z, U, tau=3.0, unit="dollars", **k),
    "bound_distribution": lambda **k: plots.bound_distribution(U, tau=3.0, unit="dollars", **k),
    "coverage_by_bound": lambda **k: plots.coverage_by_bound(Z, U, alpha=0.1, unit="dollars", **k),
    "coverage_by_group": lambda **k: plots.coverage_by_group(Z, U, list("aabbbc"), alpha=0.1, **k),
    "exceedance_curves": lambda **k: plots.exceedance_curves(
        {"one": Z, "two": -Z}, Z, 3.0, unit="dollars", **k
    ),
    "fit_panel": lambda **k: plots.fit_panel(Z, Z, GRID, GRID, mean=GRID, **k),
    "gamma_map": lambda **k: plots.gamma_map([0, 1], GRID, np.full((5, 2), 0.5), **k),
    "loss_panel": lambda **k: plots.loss_panel(Z, Z, GRID, GRID, tau=0.5, unit="dollars", **k),
    "operating_by_tau": lambda **k: plots.operating_by_tau(
        Z, U, alpha=0.1, tau=3.0, unit="dollars", **k
    ),
    "operating_by_threshold": lambda **k: plots.operating_by_threshold(
        operating_curve(Z, Z, 3.0), 2.0, unit="dollars", **k
    ),
    "pit_histogram": lambda **k: plots.pit_histogram(GRID, **k),
    "reasons": lambda **k: plots.reasons(["a", "b"], [2.0, 0.5], **k),
    "rule_panel": lambda **k: plots.rule_panel(Z, Z, Z > 2, **k),
    "spread_panel": lambda **k: plots.spread_panel(GRID, GRID, **k),
}
IN_LOSS_UNITS = [
    name
    for name in CALLS
    if name
    not in {
        "coverage_by_group",
        "fit_panel",
        "gamma_map",
        "pit_histogram",
        "reasons",
        "rule_panel",
        "spread_panel",
    }
]


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure(layout="constrained").subplots()


@pytest.fixture
def agg():
    """Return pyplot without a window, and close what a test leaves open."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plt.close("all")
    yield plt
    plt.close("all")


def texts(ax):
    """All that can be read: labels, title, legend and what is written into the picture."""
    legend = ax.get_legend()
    parts = [] if legend is None else [legend.get_title(), *legend.get_texts()]
    parts += [ax.title, *ax.texts]
    return "\n".join([ax.get_xlabel(), ax.get_ylabel(), *(part.get_text() for part in parts)])


def points(ax, colour):
    """Scattered points of a colour: those inside, and those on the edge."""
    from matplotlib.colors import to_hex

    found = [c for c in ax.collections if to_hex(c.get_facecolor()[0]) == colour.lower()]
    kinds = ([c for c in found if c.get_clip_on()], [c for c in found if not c.get_clip_on()])
    return [
        np.vstack([np.empty((0, 2)), *(np.asarray(c.get_offsets()) for c in kind)])
        for kind in kinds
    ]


def line(ax, label):
    """Data of the line whose label starts like this."""
    return next(x.get_data() for x in ax.lines if str(x.get_label()).startswith(label))


def test_every_picture_is_tested_here():
    assert sorted(CALLS) == plots.__all__


@pytest.mark.parametrize("name", CALLS)
def test_axes_in_axes_out_and_pyplot_is_left_alone(name, ax, agg):
    assert CALLS[name](ax=ax) is ax
    assert agg.get_fignums() == []
    ax.figure.draw_without_rendering()  # constrained layout raises a warning where it fails


@pytest.mark.parametrize("name", CALLS)
def test_without_axes_pyplot_knows_the_new_ones(name, agg):
    first = CALLS[name]()
    assert first.figure is agg.gcf()
    assert CALLS[name]().figure is not first.figure
    assert len(agg.get_fignums()) == 2


@pytest.mark.parametrize("name", CALLS)
def test_labels_say_what_is_drawn(name, ax):
    CALLS[name](ax=ax)
    assert ax.get_xlabel()
    assert ax.get_ylabel() or [label.get_text() for label in ax.get_yticklabels()]
    assert ("dollars" in texts(ax)) == (name in IN_LOSS_UNITS)


@pytest.mark.parametrize("name", CALLS)
def test_no_label_is_clipped_or_under_a_title(name, ax):
    CALLS[name](ax=ax)
    ax.set_title("a title that people set later")
    figure = ax.figure
    figure.draw_without_rendering()
    whole, drawn = figure.bbox, ax.get_tightbbox()
    assert whole.x0 - 1 <= drawn.x0 < drawn.x1 <= whole.x1 + 1
    assert whole.y0 - 1 <= drawn.y0 < drawn.y1 <= whole.y1 + 1
    if ax.get_legend() is not None:
        assert not ax.get_legend().get_window_extent().overlaps(ax.title.get_window_extent())


@pytest.mark.parametrize("name", CALLS)
def test_the_title_says_what_is_found(name, ax):
    CALLS[name](ax=ax)
    assert ax.get_title()
    assert max(map(len, ax.get_title().splitlines())) <= 54


def test_a_title_of_ones_own_stays(ax):
    ax.set_title("mine")
    plots.bound_against_loss(Z, U, ax=ax)
    assert ax.get_title() == "mine"


def test_findings_are_those_of_the_data(ax, rng):
    z = rng.uniform(size=1000)
    plots.bound_against_loss(z, np.full(1000, 0.5), alpha=0.4, ax=ax)
    said = f"{np.mean(z <= 0.5):.1%} of the losses are within their bound, where 60% were promised"
    assert " ".join(ax.get_title().split()) == said
    curve = operating_curve(z, z, tau=0.9)
    ax.set_title("")
    plots.operating_by_threshold(curve, ax=ax)
    place = np.argmax(curve.acceptance >= 0.7)
    for value in (curve.acceptance[place], curve.exceedance[place], curve.high[place]):
        assert f"{value:.1%}" in ax.get_title()


def test_lines_are_named_beside_them_where_there_is_room(ax, rng):
    z = rng.uniform(size=3000)
    scores = {"good": z, "fair": z + rng.normal(size=3000), "none": rng.normal(size=3000)}
    plots.exceedance_curves(scores, z, 0.7, ax=ax)
    assert ax.get_legend() is None
    boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert set(boxes) == set(scores)
    names = list(boxes)
    for i, name in enumerate(names):
        assert not any(boxes[name].overlaps(boxes[other]) for other in names[i + 1 :])
    alike = {"one": z, "two": z + 1e-9, "three": z + 2e-9}
    ax.clear()
    plots.exceedance_curves(alike, z, 0.7, ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(alike)


def test_bounds_and_losses_are_drawn_as_given(ax):
    plots.bound_against_loss(Z, U, alpha=0.1, unit="dollars", ax=ax)
    within, within_edge = points(ax, BLUE)
    above, above_edge = points(ax, VERMILION)
    np.testing.assert_array_equal(within, [[2, 1], [3, 2], [9, 8], [1, 0.5]])
    np.testing.assert_array_equal(above, [[4, 5]])
    np.testing.assert_array_equal(within_edge, [[1, 3]])  # the right edge, at its loss
    assert len(above_edge) == 0
    assert "1 of 6 bounds are infinite" in ax.get_xlabel()
    assert "within the bound (83.3%)" in texts(ax)
    assert "above the bound (16.7%)" in texts(ax)


def test_finite_bounds_need_no_note(ax):
    plots.bound_against_loss(Z, Z, ax=ax)
    assert ax.get_xlabel() == "bound $U(x)$"


def test_tolerance_gives_the_share_accepted_and_bad(ax):
    plots.bound_against_loss(Z, U, alpha=0.1, tau=4.0, ax=ax)
    # Bounds 2, 4, 3 and 1 are accepted, and the loss 5 is above 4.
    assert "accepted, yet above tau: 16.7% (at most 10%)" in texts(ax)


def test_log_axes_show_small_values_at_their_end(ax):
    z, u = np.array([0.0, 1e-9, 5.0, 100.0]), np.array([1.0, 2.0, 10.0, 200.0])
    plots.bound_against_loss(z, u, log=True, ax=ax)
    floor = 0.01  # four decades below 200, to the nearest power of ten
    within, _ = points(ax, BLUE)
    np.testing.assert_array_equal(within, np.column_stack([u, [floor, floor, 5.0, 100.0]]))
    assert "values below 0.01 drawn there" in ax.get_xlabel()
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_ylim()[0] < floor
    assert ax.get_ylim()[1] > 100


def test_many_rows_are_sampled_and_the_shares_are_of_all(ax, rng):
    z = rng.uniform(size=1000)
    plots.bound_against_loss(z, np.full(1000, 0.5), max_points=100, ax=ax)
    drawn = sum(len(points(ax, colour)[0]) for colour in (BLUE, VERMILION))
    assert drawn == 100
    assert "100 of 1,000 rows drawn" in ax.get_xlabel()
    assert f"within the bound ({np.mean(z <= 0.5):.1%})" in texts(ax)


def test_distribution_counts_every_bound(ax):
    plots.bound_distribution(U, tau=3.0, n_bins=4, unit="dollars", ax=ax)
    counts, edges, _ = ax.patches[0].get_data()
    expected, expected_edges = np.histogram(U[np.isfinite(U)], 4)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(edges, expected_edges)
    assert [bar.get_height() for bar in ax.patches[1:]] == [1]  # the infinite one
    assert ax.patches[1].get_x() > edges[-1]
    assert "50.0% of the bounds are at or below tau = 3 dollars" in texts(ax)


def test_distribution_on_a_log_axis_loses_no_row(ax):
    plots.bound_distribution([0.0, 1e-12, 1.0, 10.0, 1000.0], log=True, ax=ax)
    counts, edges, _ = ax.patches[0].get_data()
    assert counts.sum() == 5
    assert edges[0] == 0.1
    assert "values below 0.1 drawn there" in ax.get_xlabel()


@pytest.mark.parametrize("bound", [[np.inf, np.inf], [3.0, 3.0], [np.inf, 2.0]])
def test_bounds_of_one_value_are_drawn(bound, ax, agg):
    plots.bound_distribution(bound, ax=ax)
    n_drawn = ax.patches[0].get_data()[0].sum() + sum(p.get_height() for p in ax.patches[1:])
    assert n_drawn == 2
    plots.bound_against_loss([1.0, 1.0], bound)
    agg.gcf().draw_without_rendering()


def test_coverage_by_bound_is_local_coverage(ax, rng):
    u = rng.exponential(size=500)
    z = u * rng.exponential(size=500) / 2.3
    plots.coverage_by_bound(z, u, alpha=0.1, n_bins=5, delta=0.2, unit="dollars", ax=ax)
    local = local_coverage(z, u, u, n_bins=5, delta=0.2)
    dots, _, (bars,) = ax.containers[0]
    np.testing.assert_array_equal(dots.get_ydata(), local.coverage)
    np.testing.assert_allclose(
        [bar[:, 1] for bar in bars.get_segments()], np.column_stack([local.low, local.high])
    )
    np.testing.assert_array_equal(line(ax, "1 - alpha = 0.9")[1], 0.9)
    assert "80% interval" in texts(ax)


def test_groups_are_sorted_by_size_and_small_ones_pooled(ax):
    z = np.arange(10.0)
    u = z + np.array([1, 1, 1, 1, -1, 1, 1, -1, 1, -1])
    groups = np.array(["b", "b", "a", "a", "a", "a", "c", "d", "$e", "$e"])
    plots.coverage_by_group(z, u, groups, alpha=0.1, most=2, ax=ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["a (4 rows)", r"\$e (2 rows)", "(others) (4 rows)"]
    np.testing.assert_array_equal(ax.containers[0][0].get_xdata(), [0.75, 0.5, 0.75])


def test_pit_histogram_counts_and_its_band(ax, rng):
    tails = rng.uniform(size=400)
    plots.pit_histogram(tails, n_bins=8, ax=ax)
    counts = next(p for p in ax.patches if hasattr(p, "get_data")).get_data()[0]
    np.testing.assert_array_equal(counts, np.histogram(1 - tails, np.linspace(0, 1, 9))[0])
    band = next(p for p in ax.patches if not hasattr(p, "get_data"))
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert binom.cdf(low - 1, 400, 1 / 8) < 0.025 <= binom.cdf(low, 400, 1 / 8)
    assert binom.cdf(high - 1, 400, 1 / 8) < 0.975 <= binom.cdf(high, 400, 1 / 8)
    np.testing.assert_array_equal(line(ax, "the right law")[1], 50)


def test_curves_and_band_are_those_of_the_metrics(ax, rng):
    z, noise = rng.exponential(size=300), rng.normal(size=300)
    plots.exceedance_curves(
        {"good": z + 0.3 * noise, "noise": noise}, z, 1.0, delta=0.2, from_acceptance=0.1, ax=ax
    )
    banded = operating_curve(z + 0.3 * noise, z, 1.0, 0.2)
    enough = banded.acceptance >= 0.1
    np.testing.assert_array_equal(line(ax, "good")[0], banded.acceptance[enough])
    np.testing.assert_array_equal(line(ax, "good")[1], banded.exceedance[enough])
    plain = exceedance_curve(noise, z, 1.0)
    np.testing.assert_array_equal(line(ax, "noise")[1], plain.exceedance[plain.acceptance >= 0.1])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert set(np.round(corners, 12)) == set(
        np.round(np.append(banded.low[enough], banded.high[enough]), 12)
    )
    assert "band: 80%, at all thresholds at once" in texts(ax)


def test_curves_without_a_band_and_with_infinite_scores(ax):
    score = np.array([0.0, 1.0, np.inf, -np.inf])
    plots.exceedance_curves({"s": score}, [0.0, 2.0, 0.0, 0.0], 1.0, delta=None, ax=ax)
    assert not ax.collections
    np.testing.assert_array_equal(line(ax, "s")[0], [0.25, 0.5])  # infinite ones never accepted
    np.testing.assert_array_equal(line(ax, "s")[1], [0.0, 0.5])


def test_lines_differ_without_colour():
    from locuscore.plots._style import series_styles

    styles = series_styles(35)
    assert len({(s["color"], s["linestyle"]) for s in styles}) == 35
    assert len({str(s["linestyle"]) for s in styles[:5]}) == 5
    assert styles[0]["linewidth"] > styles[1]["linewidth"]


@pytest.mark.parametrize("log", [False, True])
def test_shares_at_every_tau_are_counted(log, ax, rng):
    u = rng.exponential(size=200) + 0.1
    z, u[:7] = u * rng.exponential(size=200), np.inf
    plots.operating_by_tau(z, u, alpha=0.1, tau=0.8, unit="dollars", log=log, ax=ax)
    taus, accepted = line(ax, "accepted:")
    assert 0.8 in taus
    np.testing.assert_allclose(accepted, [np.mean(u <= tau) for tau in taus])
    joint = [np.mean((u <= tau) & (z > tau)) for tau in taus]
    np.testing.assert_allclose(line(ax, "accepted and above")[1], joint)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(line(ax, "above tau if")[1], np.divide(joint, accepted))
    assert f"accepted: {np.mean(u <= 0.8):.1%}" in texts(ax)
    assert "7 of 200 bounds are infinite: never accepted" in ax.get_xlabel()
    assert ax.get_xscale() == ("log" if log else "linear")


def test_a_tau_that_accepts_nothing_says_so(ax):
    plots.operating_by_tau([1.0, 2.0], [1.0, 3.0], alpha=0.1, tau=0.5, ax=ax)
    assert "above tau if accepted: none accepted" in texts(ax)


def test_threshold_takes_the_entry_below_it(ax, rng):
    score = rng.uniform(size=300)
    curve = operating_curve(score, score + rng.normal(size=300), 1.0)
    chosen = (curve.threshold[99] + curve.threshold[100]) / 2
    plots.operating_by_threshold(curve, chosen, score="risk", eta=0.2, unit="dollars", ax=ax)
    np.testing.assert_array_equal(line(ax, "accepted")[1], curve.acceptance)
    np.testing.assert_array_equal(line(ax, "above 1 dollars")[1], curve.exceedance)
    low, high = curve.acceptance_low[99], curve.acceptance_high[99]
    assert f"accepted: {curve.acceptance[99]:.1%} ({low:.1%} to {high:.1%})" in texts(ax)
    assert "eta = 0.2" in texts(ax)
    assert ax.get_xlabel().splitlines()[0] == "threshold of the risk"


def test_thresholds_that_make_no_sense_are_refused(ax):
    curve = operating_curve(Z, Z, 3.0)
    with pytest.raises(ValueError, match="accepts nothing"):
        plots.operating_by_threshold(curve, 0.1, ax=ax)
    with pytest.raises(TypeError, match="operating_curve"):
        plots.operating_by_threshold(exceedance_curve(Z, Z, 3.0), ax=ax)
    with raises(ValueError, "infinite"):
        plots.operating_by_threshold(operating_curve([np.inf], [1.0], 3.0), ax=ax)
    with raises(ValueError, "positive"):
        plots.operating_by_threshold(operating_curve(Z - 1, Z, 3.0), log=True, ax=ax)


def test_reasons_are_sorted_and_the_rest_multiplied(ax):
    plots.reasons(["weak", "up", "down", "tiny"], [1.1, 3.0, 0.25, 0.9], most=2, ax=ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["down", "up", "(2 others)"]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(ends, [0.25, 3.0, 0.99])
    assert [bar.get_hatch() for bar in ax.patches] == ["///", "", "///"]  # seen without colour
    assert len(ax.get_xticks()) >= 2


def test_panels_of_figure_1_draw_what_they_are_given(agg):
    _, (a, b, c, d) = agg.subplots(4)
    plots.fit_panel(Z, 2 * Z, GRID, GRID**2, mean=GRID**3, ax=a)
    np.testing.assert_array_equal(a.lines[0].get_data(), [Z, 2 * Z])
    np.testing.assert_array_equal(line(a, "true mean"), [GRID, GRID**3])
    np.testing.assert_array_equal(line(a, "prediction"), [GRID, GRID**2])
    plots.spread_panel(GRID, 1 + GRID, ax=b)
    np.testing.assert_array_equal(line(b, "standard deviation"), [GRID, 1 + GRID])
    bound = np.append(GRID[:-1], np.inf)
    plots.loss_panel(Z, Z, GRID, bound, quantile=GRID, tau=0.5, alpha=0.1, ax=c)
    np.testing.assert_array_equal(line(c, "bound")[1], np.append(GRID[:-1], np.nan))
    np.testing.assert_array_equal(line(c, "true 90% quantile"), [GRID, GRID])
    assert "1 of 5 bounds are infinite: line broken" in c.get_xlabel()
    plots.rule_panel(Z, -Z, Z <= 2, ax=d)
    np.testing.assert_array_equal(line(d, "accepted (50.0%)"), [[1, 2, 0.5], [-1, -2, -0.5]])
    np.testing.assert_array_equal(line(d, "flagged (50.0%)"), [[5, 8, 3], [-5, -8, -3]])
    assert line(d, "accepted") is not None


def test_gamma_map_has_one_cell_per_pair_and_dots_for_rows(ax):
    gamma = np.arange(6.0).reshape(3, 2) / 10
    rows = np.array([[0.2, 0.3], [0.8, 1.5]])
    plots.gamma_map([0, 1], [0, 1, 2], gamma, rows=rows, names=("carat", "depth"), ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_array(), gamma)
    np.testing.assert_array_equal(line(ax, "rows"), rows.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("carat", "depth")
    colour_bar = next(a for a in ax.figure.axes if a is not ax)
    assert "smaller is more cautious" in colour_bar.get_ylabel()


NAN = np.array([1.0, np.nan])
TWO = np.array([1.0, 2.0])
ONE_LENGTH = "length"
# What is wrong, what the message says, and the call.
BAD = [
    ("lengths", ONE_LENGTH, lambda: plots.bound_against_loss(Z, TWO)),
    ("missing loss", "losses has 1 missing", lambda: plots.bound_against_loss(NAN, TWO)),
    ("missing bound", "bound has 1 missing", lambda: plots.bound_distribution(NAN)),
    ("infinite loss", "1 non-finite", lambda: plots.bound_against_loss([1.0, np.inf], TWO)),
    ("log of 0", "positive", lambda: plots.bound_against_loss([0.0], [np.inf], log=True)),
    ("log of zeros", "positive", lambda: plots.bound_distribution([0.0, 0.0], log=True)),
    ("nothing", ONE_LENGTH, lambda: plots.bound_distribution([])),
    ("no rows", ONE_LENGTH, lambda: plots.coverage_by_bound([], [], alpha=0.1)),
    ("alpha of 1", "alpha", lambda: plots.coverage_by_bound(Z, U, alpha=1.0)),
    ("groups", "one label per row", lambda: plots.coverage_by_group(Z, U, ["a"], alpha=0.1)),
    ("no bins", "n_bins", lambda: plots.pit_histogram(GRID, n_bins=0)),
    ("tails above 1", "tails", lambda: plots.pit_histogram(TWO)),
    ("no scores", "name", lambda: plots.exceedance_curves({}, Z, 1.0)),
    ("no names", "name", lambda: plots.exceedance_curves(Z, Z, 1.0)),
    ("score", ONE_LENGTH, lambda: plots.exceedance_curves({"s": TWO}, Z, 1.0)),
    ("tau", "tau", lambda: plots.operating_by_tau(Z, U, alpha=0.1, tau=np.inf)),
    ("no bound", "infinite", lambda: plots.operating_by_tau([1.0], [np.inf], alpha=0.1)),
    ("log tau", "tau", lambda: plots.operating_by_tau(Z, U, alpha=0.1, tau=0, log=True)),
    ("names", "1 names, 2 factors", lambda: plots.reasons(["a"], TWO)),
    ("negative factor", "positive", lambda: plots.reasons(["a", "b"], [1.0, -1.0])),
    ("infinite factor", "1 infinite", lambda: plots.reasons(["a", "b"], [1.0, np.inf])),
    ("prediction", ONE_LENGTH, lambda: plots.fit_panel(Z, Z, GRID, TWO)),
    ("mean", ONE_LENGTH, lambda: plots.fit_panel(Z, Z, GRID, GRID, mean=TWO)),
    ("infinite grid", "grid.* 1 inf", lambda: plots.loss_panel(Z, Z, [0.0, np.inf], TWO)),
    ("quantile", ONE_LENGTH, lambda: plots.loss_panel(Z, Z, GRID, GRID, quantile=TWO)),
    ("scores as flags", "True or False", lambda: plots.rule_panel(Z, Z, Z)),
    ("gamma", "row", lambda: plots.gamma_map([0, 1], GRID, np.zeros((2, 5)))),
    ("no gamma", "missing", lambda: plots.gamma_map([0, 1], GRID, np.full((5, 2), np.nan))),
    ("rows", r"\(n, 2\)", lambda: plots.gamma_map([0, 1], [0, 1], np.eye(2), rows=GRID)),
    ("eta", "eta", lambda: plots.operating_by_threshold(operating_curve(Z, Z, 3.0), eta=2)),
]


@pytest.mark.parametrize(("message", "call"), [case[1:] for case in BAD], ids=[c[0] for c in BAD])
def test_bad_input_is_refused_before_a_figure_is_made(message, call, agg):
    with pytest.raises(ValueError, match=message):
        call()
    assert agg.get_fignums() == []


def test_names_with_dollar_signs_are_not_formulas(ax):
    plots.exceedance_curves({"$a$": Z, "b_$": -Z}, Z, 3.0, unit="$", ax=ax)
    ax.figure.draw_without_rendering()
    assert r"\$a\$" in texts(ax)
    assert r"above 3 \$" in ax.get_ylabel()


def test_a_missing_matplotlib_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        plots.bound_distribution([1.0, 2.0])
    assert str(caught.value) == (
        "matplotlib.pyplot is not installed; run: pip install 'locuscore[plot]'"
    )


def test_importing_the_module_needs_no_matplotlib():
    code = "import sys, locuscore.plots; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_doctests(agg):
    import doctest
    from importlib import import_module

    folder = Path(locuscore.__file__).parent / "plots"
    for path in folder.glob("_[a-z]*.py"):
        result = doctest.testmod(import_module(f"locuscore.plots.{path.stem}"))
        assert result.failed == 0
        documented = {
            node.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and node.name in plots.__all__
        }
        assert bool(result.attempted) == bool(documented)
