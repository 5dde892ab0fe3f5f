import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import beta, binom

import locuscore
from locuscore.__main__ import main
from locuscore.demo._measure import Setting, example_rows, reason_row, summary

pytestmark = pytest.mark.extra

SMALL = Setting(n_train=800, n_calibration=600, n_test=500, n_trees=20, seed=3)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return what was measured, the printed text at 80 columns, and the folder of the picture."""
    from rich.console import Console

    from locuscore import demo

    folder = tmp_path_factory.mktemp("demo")
    console = Console(file=io.StringIO(), width=80)
    measured = demo.run(SMALL, folder=folder, console=console)
    return measured, console.file.getvalue(), folder


def test_printed_figures_are_those_of_the_data(ran):
    m, text, _ = ran
    words = " ".join(text.split())
    assert f"{np.mean(m.loss <= m.bound):.2%} of the 500 test errors" in words
    accepted, bad = m.bound <= m.setting.tau, m.loss > m.setting.tau
    line = next(line for line in text.splitlines() if "(Locus)" in line)
    assert line.split()[-5:] == [
        "at",
        "most",
        "10%:",
        f"{np.mean(accepted & bad):.1%}",
        f"{np.mean(bad[accepted]):.1%}",
    ]
    assert f"{accepted.mean():.1%}" in line
    everything = next(line for line in text.splitlines() if "everything" in line)
    assert everything.split()[1:] == ["100.0%", f"{bad.mean():.1%}", f"{bad.mean():.1%}"]


def test_printed_rows_are_those_of_the_data(ran):
    m, text, _ = ran
    lines = text.splitlines()
    rows = example_rows(m)
    assert len(rows) >= 4
    for i in rows:
        cells = [m.prediction[i], m.truth[i], m.loss[i], m.bound_half[i], m.bound[i], m.label_sd[i]]
        flags = ["flag" if m.flags[name][i] else "ok" for name in m.flags]
        assert flags + [f"${value:,.0f}" for value in cells] in [line.split() for line in lines]


def test_nothing_is_wider_than_the_screen(ran):
    _, text, _ = ran
    paths = ("Picture", "Report", "locuscore ", "  -o ", "  --tau ")  # people copy them
    lines = [line for line in text.splitlines() if not line.startswith(paths)]
    assert max(map(len, lines)) <= 80
    assert "…" not in text


def test_the_report_is_that_of_the_same_rows(ran):
    m, text, folder = ran
    page = (folder / "report.html").read_text()
    assert f"Report: {folder / 'report.html'}" in text
    covered = int(np.sum(m.loss <= m.bound))
    assert f"{covered} of 500 test losses" in page


def test_a_flagged_row_has_the_second_opinions_reason(ran):
    m, text, _ = ran
    row, said = reason_row(m)
    assert m.bound[row] > m.setting.tau
    assert m.loss[row] > m.setting.tau
    words = " ".join(text.split())
    assert said in words
    assert f"${m.truth[row]:,.0f}" in words
    assert said.startswith("a second model expects")


def test_the_commands_that_it_ends_with_work(ran, capsys):
    _, text, folder = ran
    lines = text.replace("\\\n", "").splitlines()
    commands = [line for line in lines if line.startswith("locuscore ")]
    assert len(commands) == 3
    for command in commands:
        assert main(command.split()[1:]) == 0, command
    capsys.readouterr()
    assert (folder / "scored.csv").read_text().count("\n") == 501


def test_the_interval_is_the_beta_mixture_of_binomials(ran):
    m, _, _ = ran
    low, high = (round(end * 500) for end in summary(m)["interval"])
    n2 = m.n_calibration
    k = int(np.ceil(0.9 * (n2 + 1)))
    # Coverage given D2 is Beta(k, n2 + 1 - k): average the binomial law over it.
    p = beta(k, n2 + 1 - k).ppf((np.arange(20_000) + 0.5) / 20_000)
    below, up_to = (binom.cdf(count, 500, p).mean() for count in (low - 1, low))
    assert below < 0.025 <= up_to
    below, up_to = (binom.cdf(count, 500, p).mean() for count in (high - 1, high))
    assert below < 0.975 <= up_to


def test_rivals_flag_as_many_rows(ran):
    m, _, _ = ran
    assert {int(flag.sum()) for flag in m.flags.values()} == {int(np.sum(m.bound > m.setting.tau))}
    for name in ("outlier", "label_sd"):
        score, flag = getattr(m, name), m.flags[name]
        assert score[flag].min() >= score[~flag].max()


def test_a_tenth_of_its_kind_did_worse_than_each_example(ran):
    m, _, _ = ran
    for i in example_rows(m):
        kind = np.all([flag == flag[i] for flag in m.flags.values()], axis=0)
        worse = np.sum(m.loss[kind] > m.loss[i])
        assert worse == kind.sum() - int(np.ceil(0.9 * kind.sum()))


def test_picture_is_saved(ran):
    _, text, folder = ran
    picture = (folder / "diamonds.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    assert "diamonds.png" in text


def test_the_parts_are_disjoint_and_the_same_seed_repeats(ran):
    m, _, _ = ran
    assert m.n_fit + m.n_calibration == SMALL.n_calibration
    assert len(m.loss) == SMALL.n_test
    from locuscore import demo

    np.testing.assert_array_equal(demo.measure(SMALL).bound, m.bound)


def test_command_line_runs_the_demo(monkeypatch, tmp_path, capsys):
    from locuscore import demo

    seen = {}

    def run(setting, folder, console):
        seen.update(s=setting, f=folder, quiet=console.quiet)
        return demo.measure(SMALL)

    monkeypatch.setattr(demo, "run", run)
    assert main(["demo", "--seed", "5", "--output", str(tmp_path), "--json"]) == 0
    assert seen == {"s": Setting(seed=5), "f": tmp_path, "quiet": True}
    assert 0.8 < json.loads(capsys.readouterr().out)["coverage"] < 1


def test_command_line_names_the_missing_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo"]) == 1
    assert "pip install 'locuscore[demo]'" in capsys.readouterr().err


def test_command_line_without_a_command_shows_help(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_version():
    result = subprocess.run(
        [sys.executable, "-m", "locuscore", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert result.stdout.strip() == f"locuscore {locuscore.__version__}"
