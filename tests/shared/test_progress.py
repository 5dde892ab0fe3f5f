"""Signs of life: shown to people who wait, to nobody else, and gone at the end."""

import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from locuscore import Locus
from locuscore._shared import progress
from locuscore._shared.progress import now, progress_bar, spinner, tracked
from locuscore.calibration import CrossFit

HOSTILE = "<img src=x onerror=alert(1)>"


class Screen:
    """Writes down what it is asked to draw."""

    def __init__(self):
        self.seen = []

    def open(self, lines):
        self.seen.append("open")
        self.draw(lines)

    def draw(self, lines):
        self.seen.append([(line.words(), line.done, line.total) for line in lines])

    def close(self):
        self.seen.append("close")


@pytest.fixture
def screen(monkeypatch):
    """A screen that is watched from the start of any work."""
    made = Screen()
    monkeypatch.setattr(progress, "_screen", lambda console: made)
    monkeypatch.setattr(progress.threading, "Timer", Soon)
    return made


class Soon:
    """A timer that fires when it is started."""

    def __init__(self, delay, function, args):
        assert delay == progress.DELAY
        self.start = lambda: function(*args)

    def cancel(self):
        pass


def test_work_inside_work_has_a_line_below(screen):
    with spinner("outer") as say:
        for _ in tracked([1, 2], "inner"):
            now("step")
        say("last")
    shown = [part for part in screen.seen if isinstance(part, list)]
    assert [("outer", 0, None), ("inner: step", 1, 2)] in shown
    assert shown[-1] == [("last", 0, None)]
    assert (screen.seen[0], screen.seen[-1]) == ("open", "close")
    assert screen.seen.count("open") == 1
    assert progress._display is None


def test_an_error_takes_all_lines_away(screen):
    def work():
        with spinner("outer"):
            for _ in tracked([1, 2], "inner"):
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert screen.seen[-1] == "close"
    assert progress._display is None


def test_hidden_work_hides_what_is_inside(screen):
    with spinner("outer", hidden=True), progress_bar(3, of="rows") as advance:
        advance(1)
    assert not screen.seen


def test_other_threads_show_nothing(screen):
    def work():
        with spinner("elsewhere"):
            now("nothing")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not screen.seen


def test_a_fit_says_what_it_does(screen, rng):
    X = rng.uniform(size=(60, 2))
    Locus(lambda X: X[:, 0], signals="x", engine="scale", calibration=CrossFit(2)).fit(X, X[:, 1])
    words = {line[0] for part in screen.seen if isinstance(part, list) for line in part}
    assert "fitting Locus" in words
    assert "folds: Scale on 30 rows" in words


def test_nothing_is_printed_where_nobody_watches(capsys, monkeypatch, rng):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with spinner("outer"):
        for _ in tracked(range(3), "inner"):
            time.sleep(0.005)
    assert capsys.readouterr() == ("", "")
    assert progress._screen(None) is None


@pytest.fixture
def notebook(monkeypatch):
    """IPython in a kernel, as far as the display asks for it: outputs by their number."""
    outputs = {}

    class Handle:
        def __init__(self, data):
            self.place = len(outputs)
            outputs[self.place] = [data]

        def update(self, data, *, raw):
            outputs[self.place].append(data)

    def display(data, *, raw, display_id):
        assert raw
        assert display_id
        return Handle(data)

    module = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()),
        display=SimpleNamespace(display=display),
    )
    monkeypatch.setitem(sys.modules, "IPython", module)
    return outputs


def test_a_notebook_has_a_bar_that_goes(notebook, monkeypatch):
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    monkeypatch.setattr(progress.threading, "Timer", Soon)
    with spinner(HOSTILE):
        for _ in tracked(range(2), "inner"):
            pass
    (shown,) = notebook.values()
    assert any('max="2" value="1"' in part["text/html"] for part in shown)
    assert all(HOSTILE not in part["text/html"] for part in shown)
    assert "&lt;img" in shown[0]["text/html"]
    assert shown[-1] == {"text/html": "", "text/plain": ""}


def test_short_work_leaves_no_output(notebook):
    with spinner("short"):
        pass
    assert not notebook


@pytest.mark.parametrize("word", ["off", "0", "No"])
def test_a_variable_turns_it_off(notebook, monkeypatch, word):
    assert isinstance(progress._screen(None), progress.Notebook)
    monkeypatch.setenv("LOCUSCORE_PROGRESS", word)
    assert progress._screen(None) is None


def test_few_rows_have_no_bar(screen):
    with progress.many_rows(np.int64(100)) as advance:
        advance(100)
    assert not screen.seen
    with progress.many_rows(100_000) as advance:
        advance(100_000)
    assert screen.seen
