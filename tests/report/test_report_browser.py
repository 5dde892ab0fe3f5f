"""The report page in a real browser: figures, sorting, copying, access, safety."""

import html
import itertools
import shlex

import numpy as np
import pytest
from scipy.stats import binom

from browser_for_tests import (
    DESKTOP,
    HOSTILE,
    OUTSIDE,
    OVERLAPS,
    PHONE,
    UNDRAWN,
    background,
    overflow,
    page_opener,
    serious_violations,
    started_browser,
)
from helpers import assert_close
from locuscore.report._html import comparison_page
from locuscore.report._html import page as page_of
from report_data import ALPHAS, TAU, calibration_of, interval, simulated, simulated_summary

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def browser():
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def rows():
    return simulated(n=600)


@pytest.fixture(scope="module")
def summary(rows):
    return simulated_summary(rows)


@pytest.fixture
def show(browser, tmp_path):
    """Open the page of a summary, its technical part unfolded."""
    from playwright.sync_api import expect

    with page_opener(browser, tmp_path, page_of) as opened:

        def unfolded(summary, **options):
            page = opened(summary, **options)
            if options.get("java_script_enabled", True):
                page.evaluate("document.querySelector('#technical > details').open = true")
                expect(page.locator(UNDRAWN)).to_have_count(0, timeout=30_000)
            return page

        yield unfolded


def slide(page, name, index):
    page.locator(f"#{name}").fill(str(index))


def figure(page, name, part="value"):
    return float(page.locator(f"#figure-{name}").get_attribute(f"data-{part}"))


def choose(page, mode):
    page.locator(f"input[name=mode][value={mode}]").check()


def check_figures(page, accepts, losses, tau):
    """Every figure on the page against the same from the rows."""
    n, k, bad = len(losses), int(accepts.sum()), int(np.sum(accepts & (losses > tau)))
    low, high = interval(bad, k)
    assert figure(page, "acceptance", "accepted") == k
    assert figure(page, "exceedance", "bad") == bad
    assert_close(figure(page, "acceptance"), k / n, atol=1e-15)
    assert_close(figure(page, "exceedance"), bad / k, atol=1e-15)
    assert_close(figure(page, "exceedance", "low"), low, atol=1e-9)
    assert_close(figure(page, "exceedance", "high"), high, atol=1e-9)
    assert_close(figure(page, "bad"), 1000 * bad / k, atol=1e-12)
    assert_close(figure(page, "bad", "rows"), 1000 * bad / n, atol=1e-12)
    assert_close(figure(page, "workload"), 1 - k / n, atol=1e-15)
    assert figure(page, "workload", "flagged") == n - k


def test_sliders_give_the_figures_of_the_library(show, rows, summary):
    page = show(summary)
    choose(page, "alpha")
    taus, seen = summary["explorer"]["taus"], set()
    for i, j in [(120, 4), (150, 9), (150, 60), (199, 98)]:
        slide(page, "tau", i)
        slide(page, "alpha", j)
        accepts = rows.exceedance(taus[i]) <= ALPHAS[j]
        # The rule "bound at most tau" is the same statement.
        np.testing.assert_array_equal(accepts, rows.bound(ALPHAS[j]) <= taus[i])
        check_figures(page, accepts, rows.losses, taus[i])
        seen.add(page.locator("#figure-exceedance").inner_text())
        assert page.locator("#badge").inner_text() == "estimate"
    assert len(seen) == 4


def test_thresholds_give_the_figures_of_the_library(show, rows, summary):
    page = show(summary)
    choose(page, "threshold")
    e = summary["explorer"]
    for i, j in [(120, 30), (150, 100), (199, 199)]:
        slide(page, "tau", i)
        slide(page, "threshold", j)
        accepts = rows.tail(TAU) <= e["threshold"]["thresholds"][j]
        check_figures(page, accepts, rows.losses, e["taus"][i])
    assert page.locator("#alpha-box").is_hidden()


def test_the_start_is_the_rule_of_the_archive(show, rows, summary):
    page = show(summary)
    assert page.locator("input[name=mode]:checked").get_attribute("value") == "threshold"
    check_figures(page, rows.tail(TAU) <= 0.12, rows.losses, TAU)
    assert page.locator("#badge").inner_text() == "certified"
    assert "confidence 90" in page.locator("#why").inner_text()


def test_certified_is_said_where_it_is_proven_and_nowhere_else(show, summary):
    page = show(summary)
    e = summary["explorer"]
    t, own = e["threshold"], e["start"]["tau_index"]
    for i in (own - 1, own, own + 1, len(e["taus"]) - 1):
        said = page.evaluate(
            """([tau, n]) => { const set = (id, i) => { const s = document.getElementById(id);
                 s.value = i; s.dispatchEvent(new Event("input")); };
               set("tau", tau);
               return Array.from({length: n}, (_, j) => { set("threshold", j);
                 return document.getElementById("badge").textContent; }); }""",
            [i, len(t["thresholds"])],
        )
        expected = [
            "certified" if passed and e["taus"][i] >= TAU else "estimate"
            for passed in t["certified"]["passed"]
        ]
        assert said == expected
    choose(page, "alpha")
    assert page.locator("#badge").inner_text() == "estimate"
    assert page.get_by_text("certified", exact=True).filter(visible=True).count() == 0


def contradicted(summary):
    """The summary if the test rows contradicted the certificate."""
    t = summary["explorer"]["threshold"]
    t = t | {"certified": t["certified"] | {"contradicted": t["certified"]["passed"]}}
    rule, *others = summary["verdict"]["claims"]
    rule = rule | {"verdict": "contradicted", "p_value": 1e-15, "sentence": "Too many are bad."}
    verdict = summary["verdict"] | {
        "kind": "bad",
        "broken": True,
        "headline": "1 of 3 promises does not hold on these rows.",
        "claims": [rule, *others],
    }
    return summary | {"explorer": summary["explorer"] | {"threshold": t}, "verdict": verdict}


def test_test_rows_that_contradict_the_certificate_turn_everything(show, summary):
    page = show(summary)
    assert "unlike" not in page.locator("#why").inner_text()
    assert page.locator(".contradicted-line").count() == 0
    page = show(contradicted(summary))
    banner = page.locator("#verdict")
    assert "bad" in banner.get_attribute("class").split()
    assert "1 of 3 promises does not hold" in banner.inner_text()
    assert "unlike the certifying ones" in page.locator("#why").inner_text()
    for badge, text in (("#badge", "contradicted"), ("#guarantee .badge", "Certificate, ")):
        assert page.locator(badge).inner_text().startswith(text)
        assert "bad" in page.locator(badge).get_attribute("class").split()
    assert page.locator(".chart .certified-line").count() == 0
    assert page.locator(".chart .contradicted-line").count() == 1
    assert page.locator(".legend").get_by_text("certified, but contradicted").count() == 1
    assert page.get_by_text("certified", exact=True).filter(visible=True).count() == 0
    assert page.locator("#claims .badge").all_inner_texts() == ["contradicted", "kept", "kept"]
    table = page.locator("#tests table").text_content()
    assert "< 1e\u221215" in table
    choose(page, "alpha")
    assert page.locator("#badge").inner_text() == "estimate"
    assert page.locator(".chart .contradicted-line").count() == 0


def test_single_points_of_a_certificate_turn_by_themselves(show, summary):
    t = summary["explorer"]["threshold"]
    passed = t["certified"]["passed"]
    at = [i for i, is_passed in enumerate(passed) if is_passed]
    wrong = [i in at[10:20] for i in range(len(passed))]
    t = t | {"certified": t["certified"] | {"contradicted": wrong}}
    page = show(summary | {"explorer": summary["explorer"] | {"threshold": t}})
    assert page.locator("#badge").inner_text() == "certified"
    assert page.locator(".chart .certified-line").count() == 2  # on either side
    assert page.locator(".chart .contradicted-line").count() == 1
    slide(page, "threshold", at[12])
    assert page.locator("#badge").inner_text() == "contradicted"
    slide(page, "threshold", at[20])
    assert page.locator("#badge").inner_text() == "certified"


def test_few_distinct_losses_are_counted_by_place(show, summary):
    points = [[0.0, 0.0]] * 70 + [[0.0, 1.0]] * 10 + [[1.0, 1.0]] * 20
    cloud = summary["bound_vs_loss"] | {"points": points, "axis_max": [1.0, 1.0]}
    page = show(summary | {"bound_vs_loss": cloud}, viewport=PHONE)
    assert page.locator("#losses .point.miss:not(.solid)").count() == 1
    assert page.locator("#losses text.label").all_text_contents() == ["70", "10", "20"]
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize(
    ("standing", "words"),
    [("heuristic", "no certificate"), ("certificate", "is not about the share of bad rows")],
)
def test_a_rule_without_a_certificate_of_shares_is_an_estimate(show, summary, standing, words):
    t = summary["explorer"]["threshold"] | {"certified": None}
    changed = {
        "explorer": summary["explorer"] | {"threshold": t},
        "guarantee": summary["guarantee"] | {"standing": standing},
    }
    page = show(summary | changed)
    choose(page, "threshold")
    assert page.locator("#badge").inner_text() == "estimate"
    assert words in page.locator("#why").inner_text()


def test_a_typed_number_stays_and_a_sentence_says_what_is_counted(show, summary):
    page = show(summary)
    choose(page, "alpha")
    page.locator("#alpha-number").fill("0.204")
    page.locator("#alpha-number").press("Enter")
    assert page.locator("#alpha-number").input_value() == "0.204"
    assert "nearest share on this page, 20\u00a0%" in page.locator("#alpha-note").inner_text()
    assert page.locator("#alpha").input_value() == "19"
    assert page.locator("#alpha").get_attribute("aria-valuetext") == "20\u00a0%"
    taus = np.array(summary["explorer"]["taus"])
    nearest = int(np.argmin(np.abs(taus - 499)))
    assert taus[nearest] != 499
    page.locator("#tau-number").fill("499")
    page.locator("#tau-number").blur()
    assert page.locator("#tau").input_value() == str(nearest)
    assert page.locator("#tau-number").input_value() == "499"
    note = page.locator("#tau-note").inner_text()
    assert note.startswith("You typed $499.")
    assert "--tau 499" in note
    assert "--tau 499 " in page.locator("#shell-text").inner_text()
    assert "tau=499," in page.locator("#python-text").inner_text()
    page.locator("#tau-number").fill("")
    page.locator("#tau-number").blur()
    assert page.locator("#tau-note").inner_text() == ""
    assert_close(float(page.locator("#tau-number").input_value()), taus[nearest], rtol=1e-5)


def test_a_typed_tolerance_below_the_certified_one_is_not_certified(show, summary):
    page = show(summary)
    assert page.locator("#badge").inner_text() == "certified"
    page.locator("#tau-number").fill("499.99")
    page.locator("#tau-number").blur()
    assert page.locator("#tau").input_value() == str(summary["explorer"]["start"]["tau_index"])
    assert page.locator("#badge").inner_text() == "estimate"
    assert "for tau of at least $500" in page.locator("#why").inner_text()


def test_sliders_move_by_keyboard(show, summary):
    page = show(summary)
    choose(page, "alpha")
    before = figure(page, "acceptance")
    page.locator("#alpha").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator("#alpha").input_value() == "14"
    assert figure(page, "acceptance") > before


def test_intervals_and_ranges_are_exact(browser):
    from importlib.resources import files

    numbers = files("locuscore.report").joinpath("templates", "intervals.js").read_text()
    sizes = [1, 2, 10, 999, 54_321, 1_000_000, 9_999_999]
    cases = [(k, n) for n in sizes for k in {0, 1, n // 100, n // 3, n - 1, n}]
    page = browser.new_page()
    script = f"cases => {{ {numbers}; return cases.map(([k, n]) => exactInterval(k, n, 0.95)); }}"
    low, high = np.array(page.evaluate(script, [list(case) for case in cases])).T
    wanted = interval(*np.array(cases).T)
    assert_close(low, wanted[0], atol=1e-9)
    assert_close(high, wanted[1], atol=1e-9)
    script = f"cases => {{ {numbers}; return cases.map((n) => binomialRange(n, 0.05, 0.95)); }}"
    ranges = page.evaluate(script, sizes)
    assert ranges == [list(binom.ppf([0.025, 0.975], n, 0.05).astype(int)) for n in sizes]
    page.close()


def column(page, j):
    return page.locator(f"#rows-table tbody tr > :nth-child({j})").all_inner_texts()


def test_the_table_sorts_by_every_column(show, summary):
    page = show(summary)
    rows = summary["rows"]["riskiest"]
    heads = page.locator("#rows-table thead button")
    assert heads.count() == 1 + len(summary["rows"]["columns"])
    assert column(page, 1) == [row["row"] for row in rows]
    for j, direction in [(3, "ascending"), (3, "descending"), (4, "ascending")]:
        heads.nth(j).click()
        values = sorted(rows, key=lambda row, j=j: row["values"][j - 1])
        expected = [row["row"] for row in values]
        assert column(page, 1) == (expected if direction == "ascending" else expected[::-1])
        assert heads.nth(j).locator("..").get_attribute("aria-sort") == direction
    heads.nth(7).click()
    assert column(page, 9) == sorted(row["values"][6] for row in rows)
    assert page.locator("#rows-table [aria-sort=ascending]").count() == 1


def test_an_unlimited_bound_sorts_above_all(show, summary):
    rows = [
        {"row": str(i), "values": [1.0, bound, *[None] * 6], "reasons": []}
        for i, bound in enumerate([5.0, None, 7.0])
    ]
    page = show(summary | {"rows": summary["rows"] | {"riskiest": rows}})
    page.locator("#rows-table thead button").nth(2).click()
    assert column(page, 1) == ["0", "2", "1"]
    assert column(page, 3)[-1] == "\u221e"
    page.locator("#rows-table thead button").nth(3).click()  # all missing: nothing to order
    assert sorted(column(page, 1)) == ["0", "1", "2"]
    scores = [part["role"] for part in summary["rows"]["columns"]].index("score") + 1
    page.locator("#rows-table thead button").nth(scores).click()
    assert column(page, scores + 1) == ["\u221e"] * 3


def test_a_long_text_does_not_make_a_tall_row(show, summary):
    columns = summary["rows"]["columns"]
    text = [part["kind"] for part in columns].index("text", 5)
    values = list(summary["rows"]["riskiest"][0]["values"])
    values[text] = "long " * 100
    row = {"row": "0", "values": values, "reasons": []}
    page = show(summary | {"rows": summary["rows"] | {"riskiest": [row]}})
    assert page.locator("#rows-table tbody tr").bounding_box()["height"] < 130


def judged(summary, *coverage):
    """The summary with another coverage, (calibration rows, alpha, rows, covered), judged anew."""
    from locuscore.report import _words
    from locuscore.report._claims import coverage_claim
    from locuscore.report._verdict import judge

    coverage = [(calibration_of(n), *part) for n, *part in coverage]
    found = [_words.coverage(*part) for part in coverage]
    notes = [_words.HIGHER] if any(map(_words.is_high, found)) else []
    verdict = judge([coverage_claim(*part) for part in coverage], notes)
    return summary | {"coverage": found, "verdict": verdict}


def test_a_bound_that_covers_everything_is_not_called_tested(show, summary):
    page = show(judged(summary, (5, 0.1, 50, 50)))
    assert "too few to test the promise" in page.locator("#verdict").inner_text()
    assert page.locator("#coverage .badge").inner_text() == "no test"
    assert page.locator("#claims .badge").inner_text() == "too few rows to tell"


def test_rows_that_judge_nothing_are_not_called_agreeing(show, summary):
    claims = [claim | {"verdict": "not judged"} for claim in summary["verdict"]["claims"]]
    verdict = {"kind": "bad", "claims": claims, "rows_of_fit": {"outcome": "used"}}
    page = show(summary | {"verdict": summary["verdict"] | verdict})
    for section in ("#claims", "#coverage"):
        assert set(page.locator(f"{section} .badge").all_inner_texts()) == {"not judged"}
    assert "look better than new rows will" in page.locator("#explorer").inner_text()
    assert "look better" not in show(summary).locator("#explorer").inner_text()


def test_the_table_filters_and_turns_to_the_safest(show, summary):
    page = show(summary)
    page.locator("input[name=rows][value=safest]").check()
    rows = summary["rows"]["safest"]
    assert column(page, 1) == [row["row"] for row in rows]
    page.locator("#rows-filter").fill(rows[3]["row"])
    kept = column(page, 1)
    assert rows[3]["row"] in kept
    assert len(kept) < len(rows)
    page.locator("#rows-filter").fill("no such text")
    assert column(page, 1) == []
    assert page.locator("#rows-status").inner_text().startswith("0 of 25 safest rows")
    chips = page.locator("#rows-table .chip")
    page.locator("#rows-filter").fill("")
    assert chips.count() == sum(len(row["reasons"]) for row in rows)


def test_a_reason_in_words_is_read_and_found(show, summary):
    page = show(summary)
    row = summary["rows"]["riskiest"][1]
    text = row["reasons"][2]["text"]
    line = page.locator("#rows-table tbody tr").nth(1)
    assert line.locator(".reason").inner_text() == f"A{text[1:]}."
    line.locator(".chip").nth(2).hover()
    expected = f"second opinion ({text}) lowers the bound"
    assert page.locator("#tip").text_content().startswith(expected)
    page.locator("#rows-filter").fill(text)
    assert row["row"] in column(page, 1)
    # A weak reason has its sentence in the tip alone.
    first, *others = summary["rows"]["riskiest"]
    weak = first | {"reasons": [*first["reasons"][:2], *first["reasons"][:1:-1]]}
    page = show(summary | {"rows": summary["rows"] | {"riskiest": [weak, *others]}})
    assert page.locator("#rows-table tbody tr").first.locator(".reason").count() == 0
    page.locator("#rows-table .chip.more").first.hover()
    assert first["reasons"][2]["text"] in page.locator("#tip").text_content()


def parsed(line):
    """The parameters the command itself reads from a line."""
    import typer

    from locuscore.cli._app import app

    words = shlex.split(line.replace("\\\n", " "))
    assert words[0] == "locuscore"
    command = typer.main.get_command(app).commands[words[1]]
    return words[1], command.make_context(words[1], words[2:]).params


def test_the_command_line_is_one_that_exists(show, summary):
    page = show(summary | {"explorer": summary["explorer"] | {"archive": "it's my guard.locus"}})
    text = page.locator("#shell-text")
    name, options = parsed(text.inner_text())
    assert (name, str(options["archive"])) == ("score", "it's my guard.locus")
    slide(page, "threshold", 3)
    name, options = parsed(text.inner_text())
    assert name == "certify"
    assert (options["tau"], options["eta"], options["delta"]) == (500, 0.05, 0.1)
    assert str(options["output"]) == "it's my guard-chosen.locus"
    choose(page, "alpha")
    slide(page, "alpha", 4)
    slide(page, "tau", 100)
    name, options = parsed(text.inner_text())
    assert name == "fit"
    assert (options["tau"], options["alpha"]) == (summary["explorer"]["taus"][100], [0.05])
    assert (options["loss"], options["rule"]) == ("absolute", "tau")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A scorer with a certified rule, labelled rows, and a folder with its archive guard.locus."""
    from locuscore import Locus, Scorer, prediction_column
    from locuscore.engines import Forest

    rng = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"size": rng.uniform(size=1800)})
    X["quoted"] = 1000 * X["size"]
    y = (X["quoted"] + rng.normal(size=1800) * 500 * X["size"]).to_numpy()
    locus = Locus(prediction_column("quoted"), engine=Forest(n_trees=5), random_state=0)
    locus.fit(X[:1200], y[:1200])
    folder = tmp_path_factory.mktemp("archive")
    scorer = Scorer(locus, locus.certify(500, 0.1, 0.1))
    scorer.save(folder / "guard.locus")
    return scorer, X[1200:], y[1200:], folder


def test_a_report_shows_what_the_library_computes(show, real):
    from locuscore.report import report

    scorer, X, y, _ = real
    locus, summary = scorer.locus, report(scorer, X, y, groups="size", unit="dollars").summary
    e, losses = summary["explorer"], locus.losses(X, y)
    page = show(summary)
    assert page.locator("#badge").inner_text() == "certified"
    check_figures(page, locus.accepts(X, scorer.rule), losses, 500.0)
    j = len(e["threshold"]["thresholds"]) // 2
    slide(page, "threshold", j)
    accepts = locus.scores(X, scorer.rule.score) <= e["threshold"]["thresholds"][j]
    check_figures(page, accepts, losses, 500.0)
    choose(page, "alpha")
    for i, j in [(e["start"]["tau_index"], 9), (len(e["taus"]) // 2, 29), (len(e["taus"]) - 2, 4)]:
        slide(page, "tau", i)
        slide(page, "alpha", j)
        tau, alpha = e["taus"][i], e["alphas"][j]
        accepts = locus.exceedance(X, tau) <= alpha
        np.testing.assert_array_equal(accepts, locus.loss_bound(X, alpha) <= tau)
        check_figures(page, accepts, losses, tau)


@pytest.mark.parametrize("alpha", [0.1, None])
def test_a_report_with_another_rule_or_none(show, real, alpha):
    from locuscore import Scorer
    from locuscore.report import report

    scorer, X, y, _ = real
    rule = None if alpha is None else scorer.locus.tau_rule(500, alpha)
    page = show(report(Scorer(scorer.locus, rule), X, y).summary, viewport=PHONE)
    assert page.locator("#badge").inner_text() == "estimate"
    assert page.locator("input[name=mode]").count() == (0 if rule is None else 2)
    name, _ = parsed(page.locator("#shell-text").inner_text())
    assert name == ("fit" if rule is None else "score")  # the archive has this rule already
    assert overflow(page) <= 0


def test_the_python_code_makes_the_rule(show, summary, real, monkeypatch):
    from locuscore import Scorer

    _, X, _, folder = real
    monkeypatch.chdir(folder)
    page = show(summary)
    code = page.locator("#python-text")

    def run():
        names = {"X_new": X, "print": str}
        exec(compile(code.inner_text(), "report", "exec"), names)
        return names

    assert "flag" in run()["table"]
    slide(page, "threshold", 20)
    certified = summary["explorer"]["threshold"]["certified"]["passed"][20]
    rule = run()["rule"]
    assert rule.standing == ("certificate" if certified else "heuristic")
    assert rule.threshold == summary["explorer"]["threshold"]["thresholds"][20]
    slide(page, "threshold", 199)
    assert run()["rule"].standing == "heuristic"
    choose(page, "alpha")
    slide(page, "alpha", 19)
    run()
    saved = Scorer.load(folder / "guard-chosen.locus").rule
    assert (saved.threshold, saved.score.alpha, saved.standing) == (500.0, 0.2, "theorem")


def test_the_buttons_copy_what_is_shown(show, summary):
    page = show(summary, permissions=["clipboard-read", "clipboard-write"])
    for name in ("shell", "python"):
        page.locator(f"#{name}-copy").click()
        page.get_by_text("Copied", exact=True).first.wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator(f"#{name}-text").text_content()


def test_the_policy_forbids_the_network(browser, tmp_path, summary):
    file = tmp_path / "report.html"
    file.write_text(page_of(summary), encoding="utf-8")
    page = browser.new_page()
    finished = []
    page.on("requestfinished", lambda request: finished.append(request.url))
    page.goto(file.as_uri())
    refused = page.evaluate(
        """async () => {
          const refused = [];
          document.addEventListener("securitypolicyviolation",
            (event) => refused.push(event.effectiveDirective));
          document.body.append(Object.assign(new Image(), {src: "http://127.0.0.1:9/x.png"}));
          const code = document.createElement("script");
          code.textContent = "document.title = 'broken'";
          document.body.append(code);
          await fetch("http://127.0.0.1:9/").catch(() => null);
          await new Promise((done) => setTimeout(done, 50));
          return refused.sort(); }"""
    )
    assert refused == ["connect-src", "img-src", "script-src-elem"]
    assert page.title() == summary["title"]
    assert set(finished) <= {file.as_uri()}
    page.close()


def test_dark_and_light(show, summary):
    light, dark = (background(show(summary, color_scheme=scheme)) for scheme in ("light", "dark"))
    assert light != dark
    page = show(summary, color_scheme="light")
    page.locator("#theme").click()
    assert background(page) == dark
    page.locator("#theme").click()
    assert background(page) == light


@pytest.mark.parametrize("width", [360, 375, 768, 1280])
def test_nothing_is_wider_than_the_window(show, summary, width):
    page = show(summary, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert overflow(page) <= 0
    widths = page.evaluate(
        "[...document.querySelectorAll('.chart svg')].map((s) => s.getBoundingClientRect().right)"
    )
    assert widths
    assert max(widths) <= width


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_label_is_clipped_or_covered(show, summary, size):
    page = show(contradicted(summary), viewport=size)
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_serious_violation(show, summary, scheme, size):
    cloud = summary["bound_vs_loss"]
    few = contradicted(summary) | {"bound_vs_loss": cloud | {"points": cloud["points"][:50]}}
    page = show(few, color_scheme=scheme, viewport=size)
    assert not serious_violations(page)


def hostile(value):
    """The summary with every text replaced, but for those the page acts on."""
    acts_on = ("kind", "role", "standing", "created", "among")
    if isinstance(value, dict):
        return {k: v if k in acts_on else hostile(v) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(part) for part in value]
    return HOSTILE if isinstance(value, str) else value


def test_hostile_text_is_text(show, summary):
    page = show(hostile(summary), viewport=PHONE)
    assert page.title().startswith("</script><img")
    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert overflow(page) <= 0
    page.locator("#rows-table thead button").nth(2).click()
    choose(page, "alpha")
    slide(page, "alpha", 5)
    words = shlex.split(page.locator("#shell-text").text_content().replace("\\\n", " "))
    assert words[-1] == f"{HOSTILE}-chosen.locus"
    compile(page.locator("#python-text").text_content(), "report", "exec")
    page.locator("#rows-table .chip").nth(2).hover()
    assert f"({HOSTILE})" in page.locator("#tip").text_content()
    assert page.locator("#rows-table .reason").first.text_content() == f"{HOSTILE}."


def bare(summary):
    """As little as a summary may have: one row, no rule, nothing accepted."""
    explorer = {
        "taus": [500.0], "alphas": [0.1], "accepted": [[0]], "bad": [[0]], "losses_above": [1],
        "start": {"tau_index": 0, "alpha_index": 0}, "threshold": None, "interval_level": 0.95,
        "archive": "", "loss": "cost",
    }  # fmt: skip
    one = {"low": None, "high": None, "n": 1, "covered": 1, "rate": 1.0, "ci_low": 0.025,
           "ci_high": 1.0, "mean_loss": 600.0}  # fmt: skip
    return summary | {
        "n_rows": 1, "unit": "", "explorer": explorer, "groups": None, "attribution": None,
        "parts": [], "money": {"tau": 500.0, "flagged": None, "costs": None, "sentences": [],
                               "accepted": {"n": 1, "total": 600.0, "mean": 600.0, "worst": 600.0,
                                            "bad": 1}},
        "provenance": {key: None if "day" in key else "" for key in summary["provenance"]}
        | {"is_expired": False, "versions": {}},
        "deciles": [one], "facts": [], "pit": {"counts": [0] * 20, "p_value": 1.0, "sentence": ""},
        "bound_vs_loss": {"alpha": 0.1, "points": [[None, 600.0]], "n_points": 1, "n_infinite": 1,
                          "axis_max": [None, 600.0]},
        "bounds": {"alpha": 0.1, "edges": [], "counts": [], "n_infinite": 1,
                   "quantiles": {"0.1": None}},
        "curve": {"tau": 500.0, "series": [{"name": "Locus", "acceptance": [1.0],
                  "exceedance": [1.0], "low": None, "high": None, "area": 1.0}],
                  "band_level": 0.95},
        "rows": {"columns": [{"key": "b", "name": "bound_0.1", "kind": "number", "role": "bound"}],
                 "riskiest": [{"row": "0", "values": [None], "reasons": []}], "safest": []},
    }  # fmt: skip


def test_a_summary_with_almost_nothing(show, summary):
    page = show(bare(summary))
    assert page.locator("#figure-exceedance").inner_text() == "\u2013"
    assert "nothing is accepted" in page.locator("#explorer .tiles").inner_text()
    assert page.locator("input[name=mode]").count() == 0
    assert page.locator("#attribution, #facts, #pit").count() == 0
    assert column(page, 2) == ["\u221e"]
    name, options = parsed(page.locator("#shell-text").inner_text())
    assert (name, options["loss"]) == ("fit", "module:object")
    text = page.locator("body").inner_text()
    for wrong in ("NaN", "undefined", "null", "Infinity", "[object"):
        assert wrong not in text


@pytest.mark.parametrize("part", ["coverage", "deciles", "facts"])
def test_an_empty_part_is_left_out(show, summary, part):
    page = show(summary | {part: []})
    assert page.locator("main > section").count() == 7
    assert page.locator("nav a").count() == page.locator("main > section").count()
    inside = page.locator("#technical section").count()
    assert page.locator("#technical .links a").count() == inside >= 8


def test_thresholds_without_end(show, summary):
    """A rule that accepts nothing has the threshold -inf, which is null."""
    t = summary["explorer"]["threshold"]
    t = t | {
        "thresholds": [None, 0.1],
        "accepted": [0, 5],
        "bad": [[0, 1]] * 200,
        "start": 0,
        "certified": t["certified"] | {"passed": [False, False]},
    }
    page = show(summary | {"explorer": summary["explorer"] | {"threshold": t}})
    assert page.locator("#threshold").get_attribute("aria-valuetext") == "\u2212\u221e"
    assert page.locator("#badge").inner_text() == "estimate"
    assert page.locator("#why").inner_text().startswith("This accepts nothing.")
    assert page.locator("#guarantee .badge").inner_text() == "Accepts nothing"
    assert page.locator(".legend").get_by_text("certified", exact=True).count() == 0
    assert parsed(page.locator("#shell-text").inner_text())[0] == "score"  # the archive's own rule
    slide(page, "threshold", 1)
    assert page.locator("#why").inner_text().startswith("This threshold is not among those")


def test_a_certificate_for_every_row(show, real):
    from locuscore import Scorer
    from locuscore.report import report

    scorer, X, y, _ = real
    rule = scorer.locus.certify(5000, 0.1, 0.1)
    assert rule.threshold == np.inf
    page = show(report(Scorer(scorer.locus, rule), X, y).summary)
    assert page.locator("#badge").inner_text() == "certified"
    assert figure(page, "acceptance") == 1
    assert parsed(page.locator("#shell-text").inner_text())[0] == "score"


@pytest.mark.parametrize(
    ("covered", "kind", "words", "badge"),
    [
        (800, "bad", "The promise does not hold", "too low"),
        (990, "warn", "wider than it needs", "higher"),
        (900, "good", "The promise holds up", "agrees"),
    ],
)
def test_the_verdict_tells_low_from_high(show, summary, covered, kind, words, badge):
    page = show(judged(summary, (1000, 0.1, 1000, covered)))
    verdict = page.locator("#verdict")
    assert words in verdict.inner_text()
    assert kind in verdict.get_attribute("class").split()
    shown = page.locator("#coverage .badge")
    assert shown.inner_text() == badge
    assert kind in shown.get_attribute("class").split()


def test_low_by_itself_is_no_breach_among_several_claims(show, summary):
    several = [(1000, alpha, 1000, round(1000 * (1 - alpha))) for alpha in (0.2, 0.3, 0.4)]
    page = show(judged(summary, (1000, 0.1, 1000, 872), *several))
    assert "good" in page.locator("#verdict").get_attribute("class").split()
    assert page.locator("#coverage .badge").first.inner_text() == "low"


def test_it_prints_on_two_pages(browser, tmp_path, summary):
    file = tmp_path / "report.html"
    file.write_text(page_of(summary), encoding="utf-8")
    page = browser.new_page(viewport=DESKTOP)
    page.goto(file.as_uri())
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.count(b"/Type /Page\n") == 2
    page.emulate_media(media="print")
    assert page.locator("#technical").is_hidden()
    assert summary["provenance"]["data_digest"] in page.locator("#provenance").inner_text()
    page.close()


def test_the_first_screen_is_for_people_who_decide(browser, tmp_path, summary):
    """Headline, every claim in counts and what stands out, without scrolling or formulas."""
    file = tmp_path / "report.html"
    file.write_text(page_of(summary), encoding="utf-8")
    page = browser.new_page(viewport=DESKTOP)
    page.goto(file.as_uri())
    assert page.locator("#verdict").inner_text().endswith(summary["verdict"]["headline"])
    claims = page.locator("#claims")
    assert claims.bounding_box()["y"] + claims.bounding_box()["height"] < DESKTOP["height"]
    text = page.locator("main").inner_text()
    for claim in summary["verdict"]["claims"]:
        assert claim["plain"] in text
    assert summary["verdict"]["attention"][0] in text
    money = summary["money"]
    assert f"{money['accepted']['n']:,} diamonds" in page.locator("#money").inner_text()
    assert f"${money['costs']['review']:,.0f}" in page.locator("#money").inner_text()
    assert "5 May 2026" not in text
    assert "2 May 2026 to 30 August 2026" in page.locator("#provenance").inner_text()
    for formula in ("alpha =", "tau =", "P(loss", "p = ", "Theorem"):
        assert formula not in page.locator("#claims, #money, #parts").first.inner_text()
    assert page.locator("#tests").is_hidden()
    page.locator("nav a[href='#technical']").click()
    assert page.locator("#tests").is_visible()
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#coverage")  # a link from elsewhere opens the fold
    assert page.locator("#coverage").is_visible()
    page.close()


NUMBERS = [0.0, 1.0, 12.34, 150_000.0, 12_345.6, 999.94, 0.00317, 2.5e6, 3.14159e9, 0.5, -70_250.0]


def test_the_page_writes_numbers_as_the_library_does(browser):
    from importlib.resources import files

    from locuscore._shared.readable import amount, as_typed, large_amount

    code = files("locuscore._shared").joinpath("templates", "numbers.js").read_text()
    page = browser.new_page()
    for unit in ("dollars", "EUR", "kWh", ""):
        script = f"""([xs, unit]) => {{ {code};
          return xs.map((x) =>
            [amount(x, unit), amount(x, unit, AS_TYPED), largeAmount(x, unit)]); }}"""
        found = page.evaluate(script, [NUMBERS, unit])
        for x, texts in zip(NUMBERS, found, strict=True):
            wanted = [amount(x, unit), as_typed(x, unit), large_amount(x, unit)]
            assert [text.replace("\u2212", "-") for text in texts] == wanted
    days = page.evaluate(f"() => {{ {code}; return [dayText('2026-05-05'), dayText('soon')]; }}")
    assert days == ["5 May 2026", "soon"]
    page.close()


def test_it_prints(show, summary):
    page = show(summary, color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    shown = page.locator("main > section").filter(visible=True)
    assert [part.get_attribute("id") for part in shown.all()] == [
        *("claims", "money", "parts", "attribution", "provenance", "technical")
    ]
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 between its margins
    assert overflow(page) <= 0
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(26, 32, 41)"


def test_it_works_in_a_frame_without_rights(browser, summary):
    from locuscore.report import Report

    page = browser.new_page(viewport=DESKTOP)
    errors = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    shown = html.escape(Report(summary).to_html(), quote=True)
    page.set_content(f'<iframe sandbox="allow-scripts" srcdoc="{shown}"></iframe>')
    frame = page.frame_locator("iframe")
    assert "promises hold up" in frame.locator("#verdict").inner_text()
    assert frame.locator("#facts").is_hidden()
    frame.locator("nav a[href='#technical']").click()
    frame.locator(".links a[href='#facts']").click()
    assert frame.locator("#facts").evaluate("(section) => section === document.activeElement")
    frame.locator("#theme").click()
    assert not errors
    page.close()


def test_without_script_the_guarantee_is_there(show, summary):
    page = show(summary, java_script_enabled=False)
    text = page.locator("noscript").inner_text()
    assert summary["guarantee"]["card"].splitlines()[0] in text
    assert summary["verdict"]["sentence"] in text
    assert all(sentence in text for sentence in summary["guarantee"]["sentences"])


def test_charts_have_names_and_descriptions(show, summary):
    page = show(summary)
    charts = page.locator("svg[role=img]")
    assert charts.count() >= 9
    for chart in charts.all():
        for reference in ("aria-labelledby", "aria-describedby"):
            assert page.locator(f"#{chart.get_attribute(reference)}").text_content()
    levels = [int(h[1]) for h in page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)")]  # fmt: skip
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_a_rule_by_group_is_a_table(show, summary):
    row = {"group": HOSTILE, "pooled": 1, "certified": True, "accepts_nothing": False,
           "threshold": 0.125, "n": 400, "accepted": 300, "bad": 6, "promised": 0.05,
           "verdict": "kept"}  # fmt: skip
    nothing = row | {"group": "tiny", "certified": False, "accepts_nothing": True, "accepted": 0}
    nothing |= {"threshold": None, "bad": 0, "promised": None, "verdict": None}
    every = row | {"group": "a, b", "pooled": 2, "threshold": None}
    table = {"by": "colour", "score": "tail", "rows": [row, nothing, every],
             "n_groups_not_shown": 3, "rows_not_shown": 17, "rows_of_other_groups": 9}  # fmt: skip
    page = show(summary | {"rule_groups": table})
    part = page.locator("#rule-groups")
    cells = [r.locator("th, td").all_inner_texts() for r in part.locator("tbody tr").all()]
    assert cells[0][1:] == ["0.125", "400", "300", "6", "2.00\u00a0%", "5\u00a0%", "kept"]
    assert cells[0][0].startswith("</script>")
    assert cells[1][1] == "nothing certified"
    assert cells[1][-1] == "accepts nothing"
    assert cells[2][:2] == ["a, b (pool)", "every finite score"]
    assert "17 rows" in part.inner_text()
    assert "9 rows are of no group with a rule" in part.inner_text()
    assert page.locator(".links a[href='#rule-groups']").count() == 1


@pytest.fixture(scope="module")
def compared(summary):
    from locuscore.report import compare

    rule, *others = summary["verdict"]["claims"]
    rule = rule | {"observed": 200 / 400, "n": 400, "verdict": "contradicted"}
    first = summary["parts"][0]["rows"][0] | {"k": 50, "of": 60}
    colour = summary["parts"][0] | {"rows": [first, *summary["parts"][0]["rows"][1:]]}
    later = summary | {
        "title": "Later",
        "verdict": summary["verdict"] | {"claims": [rule, *others], "kind": "bad"},
        "parts": [colour, summary["parts"][1]],
    }
    return compare(summary, later).summary


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_comparison_is_a_page_of_its_own(browser, tmp_path, compared, scheme, size):
    with page_opener(browser, tmp_path, comparison_page) as opened:
        page = opened(compared, color_scheme=scheme, viewport=size)
        assert "bad" in page.locator("#verdict").get_attribute("class").split()
        badges = page.locator("#shares .badge").all_inner_texts()
        assert badges == ["within chance", "more", "within chance", "within chance"]
        text = page.locator("main").inner_text()
        for share in compared["shares"]:
            assert share["sentence"] in text
        assert page.locator("#parts .dot.miss:not(.legend *)").count() == 1
        assert overflow(page) <= 0
        assert not serious_violations(page)


def test_hostile_text_of_a_comparison_is_text(browser, tmp_path, compared):
    with page_opener(browser, tmp_path, comparison_page) as opened:
        page = opened(hostile(compared), viewport=PHONE)
        assert page.locator("h1").text_content() == HOSTILE
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 2
        assert overflow(page) <= 0
