"""What objects show at a prompt and in a notebook."""

import copy
import inspect
import pickle
import re
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import locuscore
from archives_for_tests import small_scorer
from browser_for_tests import HOSTILE
from locuscore import Locus
from locuscore._shared.cards import Card, Table
from locuscore._shared.shown import call_text, value_text
from locuscore.draws import Draws
from public_objects import core_objects

CORE = ("calibration", "draws", "engines", "metrics", "report", "testing")
MOST_LETTERS, MOST_LINES = 300, 3
WITH_CARD = {
    *("Locus", "Scorer", "FlagRule", "GroupRule", "CascadeRule", "Report", "OperatingCurve"),
    "EngineSelection",
}
TAGS = {
    *("div", "style", "b", "span", "p", "dl", "dt", "dd", "br", "table", "thead", "tbody", "tr"),
    *("th", "td", "details", "summary", "svg", "line", "text", "polygon", "polyline", "a"),
}
# Their instances are made by pandas alone; `tests/testing` has them.
NEED_PANDAS = {"Answers"}


@pytest.fixture(scope="module")
def objects():
    return core_objects()


def public_classes(*folders):
    for folder in folders:
        module = import_module(f"locuscore.{folder}" if folder else "locuscore")
        for name in module.__all__:
            if name in getattr(module, "_EXTRAS", ()):
                continue
            found = getattr(module, name)
            if inspect.isclass(found) and not issubclass(found, BaseException | str):
                yield found


def test_every_public_class_is_tried(objects):
    """And none of the families of laws has a repr of its own."""
    tried = {base for one in objects for base in type(one).__mro__}
    missing = {
        found.__name__
        for found in public_classes("", *CORE)
        if found not in tried and not issubclass(found, Draws)
    }
    assert missing == NEED_PANDAS, "add an instance to tests/support/public_objects.py"
    for found in public_classes("draws"):
        assert found.__repr__ is Draws.__repr__


def test_every_object_is_short_at_a_prompt(objects):
    for one in objects:
        text = repr(one)
        assert len(text) < MOST_LETTERS, (type(one).__name__, len(text), text)
        if isinstance(one, Locus) or not isinstance(one, BaseEstimator):  # their lines: sklearn's
            assert len(text.splitlines()) <= MOST_LINES, text
        assert type(one).__name__.split("Score")[0] in text


class Markup(HTMLParser):
    """Tags and attributes of a card; it must be whole."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.names, self.values, self.text, self.open = set(), set(), [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.values += [value for _, value in attrs]
        if tag not in ("br", "line", "polygon", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_cards_are_plain_markup_and_hostile_text_stays_text(objects):
    seen = set()
    for one in objects:
        card = getattr(one, "_repr_html_", None)
        if card is None or (isinstance(one, BaseEstimator) and not isinstance(one, Locus)):
            continue
        seen.add(type(one).__name__)
        page = Markup(card())
        assert page.tags <= TAGS
        assert not {name for name in page.names if name.startswith("on")}
        assert not re.search(r"url\(|@import|https?:", card())
        assert len(card()) < 60_000
    assert seen == WITH_CARD


def test_hostile_text_is_shown_as_it_is(scorer):
    card = Card(
        HOSTILE, HOSTILE, "warn", [HOSTILE], [(HOSTILE, HOSTILE), ("empty", "")],
        table=Table([HOSTILE], [[HOSTILE]], 0, HOSTILE), folded=[(HOSTILE, [(HOSTILE, HOSTILE)])],
        link=(HOSTILE, HOSTILE),
    ).html()  # fmt: skip
    page = Markup(card)
    assert sum(HOSTILE[:30] in part for part in page.text) == 12
    assert "empty" not in page.text
    assert "img" not in page.tags
    assert HOSTILE in page.values
    assert len(Card("a" * 10**6).html()) < 20_000


def test_a_fitted_locus_says_on_what(scorer):
    locus = scorer.locus
    first, second, third = repr(locus).splitlines()
    assert first == "Locus(LinearRegression(), absolute loss)"
    assert f"{len(locus.fit_rows_)} rows model the loss (D1)" in second
    assert f"{locus.calibration_.n} calibrate (D2)" in second
    assert "Forest" in second
    assert "marginal" in second
    assert third.strip() == "promise: P(loss > loss_bound(X, alpha=0.1)) <= 0.1"
    card = "\n".join(Markup(locus._repr_html_()).text)
    assert locus.calibration_.sentence([0.1]) in card
    assert locus.signals_.summary(3) in card
    assert f"fitted in {round(locus.fit_seconds_, 2):g} s" in card
    assert "not fitted" not in card
    assert "not fitted" in clone(locus)._repr_html_()
    assert repr(clone(locus)).startswith("Locus(")
    assert "\n" not in repr(Locus(len))
    pipeline = make_pipeline(StandardScaler(), Ridge())
    assert "Pipeline to Ridge()" in Locus(pipeline)._repr_html_()


def test_a_rule_says_what_it_promises(scorer):
    rule = scorer.rule
    assert rule.guarantee.partition(". ")[0][:100] in repr(rule)
    assert f"n = {rule.evidence['n']}" in repr(rule)
    assert "theorem" in repr(rule)
    shown = "\n".join(Markup(rule._repr_html_()).text)
    for fact in (rule.guarantee, *rule.assumptions, "loss bound at alpha = 0.2 <= 0.5"):
        assert fact in shown
    assert "Guarantee card" in str(rule)


def test_scikit_learn_decides_whether_cards_are_shown(scorer):
    locus = scorer.locus
    assert set(locus._repr_mimebundle_()) == {"text/plain", "text/html"}
    with config_context(display="text"):
        assert not hasattr(locus, "_repr_html_")
        assert locus._repr_mimebundle_() == {"text/plain": repr(locus)}
    diagram = make_pipeline(clone(locus))
    assert "Locus" in repr(diagram)
    assert "Locus" in diagram._repr_html_()


def test_copies_show_the_same(scorer):
    for one in (scorer, scorer.locus, scorer.rule):
        for other in (copy.copy(one), pickle.loads(pickle.dumps(one))):
            assert repr(other) == repr(one)
            assert other._repr_html_() == one._repr_html_()


def test_a_written_report_is_linked(scorer, objects, tmp_path, monkeypatch):
    made = next(one for one in objects if type(one).__name__ == "Report")
    assert "<a " not in made._repr_html_()
    monkeypatch.chdir(tmp_path)
    made.write("x & y.html")
    page = Markup(made._repr_html_())
    assert "x%20%26%20y.html" in page.values  # a link, so quoted like one
    assert made.verdict_lines[0] in page.text


@pytest.mark.extra
def test_objects_of_extras_are_short_and_a_status_is_a_card(scorer, tmp_path):
    import torch

    import watch_data
    from locuscore.service import LedgerSettings, Settings
    from locuscore.testing import Answers
    from locuscore.torch import TorchPredictor, hidden_layer
    from locuscore.watch import Action, Recorder, Status, Watch, WatchSettings, claims_of

    predictor = TorchPredictor(torch.nn.Sequential(torch.nn.Linear(3, 1)), kind="regression")
    data = watch_data.hostile(watch_data.alarmed())
    for claim in data["claims"]:
        claim["units"] = "rows"
    action = Action("look", HOSTILE)
    status = Status("alarm", HOSTILE, action, data)
    watch = Watch(tmp_path / "ledger.db", scorer)
    recorder = Recorder(tmp_path / "ledger.db", scorer, tmp_path / "spool")
    made = [predictor, hidden_layer(predictor, "0"), status, action, WatchSettings(), watch]
    made += [
        recorder,
        *claims_of(scorer),
        Settings(),
        LedgerSettings(store="x"),
        Answers.sample(9, 0),
    ]
    for one in made:
        assert len(repr(one)) < MOST_LETTERS, repr(one)
        assert type(one).__name__ in repr(one)
    watch.close()
    page = Markup(status._repr_html_())
    assert page.tags <= TAGS
    assert "alarm" in page.text
    assert sum(HOSTILE in part for part in page.text) >= 2


def test_values_are_short():
    assert value_text(1 / 3) == "0.333333"
    assert value_text("a" * 10**6).endswith("...")
    assert len(value_text(b"a" * 10**6)) <= 60
    assert value_text(np.zeros((3, 1000))) == "<ndarray of 3 x 1,000>"
    assert value_text({i: i for i in range(10**4)}) == "<10,000 entries>"
    assert value_text([1, 2]) == "[1, 2]"
    assert len(call_text(object(), {f"name_{i}": i for i in range(100)})) < MOST_LETTERS


@pytest.mark.extra
def test_a_loaded_scorer_shows_itself(scorer, path):
    scorer.save(path)
    loaded = locuscore.Scorer.load(path)
    assert repr(loaded).splitlines()[0] == repr(scorer).splitlines()[0]
    assert "fitted" in loaded.locus._repr_html_()
    assert small_scorer().digest in small_scorer()._repr_html_()
