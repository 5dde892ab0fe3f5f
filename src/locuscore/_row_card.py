"""How a `Locus` shows itself: a few lines at a prompt, a card in a notebook."""

import re
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sklearn import get_config
from sklearn.base import BaseEstimator

from locuscore._shared.cards import Card, Facts
from locuscore._shared.progress import spinner
from locuscore._shared.readable import readable
from locuscore._shared.shown import LONGEST_VALUE, cut, lines_text, value_text

P = ParamSpec("P")
L = TypeVar("L")
SHOWN_ALPHA = 0.1  # of the promise; it has the same form at every alpha
LONGEST_CALL = 100


class RowCard:
    """`repr` and the notebook's card of a `Locus`; ``set_config(display="text")`` turns it off."""

    def __repr__(self: Any, N_CHAR_MAX: int = LONGEST_CALL) -> str:
        text = BaseEstimator.__repr__(self, N_CHAR_MAX)
        call = " ".join(text.split())
        if not self.__sklearn_is_fitted__():
            return lines_text(call, most=2)
        of = "" if self.predictor_ is None else f"{predictor_text(self.predictor_, 50)}, "
        unit = f" in {self.unit_}" if self.unit_ else ""
        head = f"Locus({of}{self.loss_.name} loss{unit})"
        return f"{cut(head, LONGEST_CALL)}\n  {fitted_text(self)}\n  {promise_text(self)}"

    @property
    def _repr_html_(self: Any) -> Any:
        # As in scikit-learn: an attribute that is not there is not asked.
        if get_config()["display"] != "diagram":
            raise AttributeError("there is no card with set_config(display='text')")
        return lambda: locus_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        # Stands for scikit-learn's own, which would draw its diagram.
        found = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            found["text/html"] = locus_card(self)
        return found


def timed(fit: Callable[P, L]) -> Callable[P, L]:
    """Show a fit while it lasts, and note how many seconds it took."""

    @wraps(fit)
    def fitted(*args: P.args, **kwargs: P.kwargs) -> L:
        start = time.perf_counter()
        with spinner("fitting Locus"):
            locus = fit(*args, **kwargs)
        vars(locus)["fit_seconds_"] = time.perf_counter() - start
        return locus

    return fitted


def fitted_text(locus: Any) -> str:
    """What was fitted, how and on how many rows, in one line."""
    engine, kind = type(locus.engine_).__name__, _calibration(locus)
    return cut(f"fitted: {engine}, {_rows(locus)}, {kind} calibration", 110)


def promise_text(locus: Any) -> str:
    """What the bound promises at the usual alpha, in one line."""
    calibration = locus.calibration_
    more = f" + {calibration.plus}" if calibration.plus else ""
    most = f"{calibration.promised(SHOWN_ALPHA):.3g}{more}"
    return cut(f"promise: P(loss > loss_bound(X, alpha={SHOWN_ALPHA:g})) <= {most}", 100)


def locus_card(locus: Any) -> str:
    """The card: before `fit` the parameters, afterwards what was learned from which rows."""
    given = {
        name: value
        for name, value in locus.get_params(deep=False).items()
        if value is not None and name != "predictor"
    }
    predictor = ("predictor", predictor_text(locus.predictor, 160))
    parameters: Facts = [predictor, *((k, value_text(v, 160)) for k, v in given.items())]
    if not locus.__sklearn_is_fitted__():
        lead = "Bounds the loss of single predictions once it is fitted: fit(X, y)."
        return Card("Locus", "not fitted", "warn", lead, parameters).html()
    unit = f", in {locus.unit_}" if locus.unit_ else ""
    lead = f"Bounds the {locus.loss_.name} loss of each prediction{unit}."
    facts = [
        ("predictor", predictor_text(locus.predictor_)),
        ("rows", _rows(locus)),
        ("engine", _without_seed(value_text(locus.engine_, 160))),
        ("signals", locus.signals_.summary(locus.n_features_in_)),
        ("calibration", _calibration(locus)),
        ("promise", locus.calibration_.sentence([SHOWN_ALPHA])),
        ("caution", locus.calibration_.too_few(SHOWN_ALPHA, locus.support_.high) or ""),
        ("time", _time(locus)),
    ]
    return Card("Locus", "fitted", "good", lead, facts, folded=[("Parameters", parameters)]).html()


def _without_seed(text: str) -> str:
    """An engine as it was asked for: `fit` gives it a seed of its own."""
    return re.sub(r"(, )?random_state=\d+(?(1)|(, )?)", "", text)


def _rows(locus: Any) -> str:
    n = locus.calibration_.n
    if not locus.calibration_.holds_rows_out:
        return f"{n:,} rows, all of which model the loss and calibrate"
    rows = getattr(locus, "fit_rows_", None)  # an archive may not have them
    model = "" if rows is None else f"{len(rows):,} rows model the loss (D1), "
    clusters = locus.calibration_.n_clusters
    of = "" if clusters is None else f" in {clusters:,} clusters"
    return f"{model}{n:,} calibrate{of} (D2)"


def predictor_text(predictor: Any, most: int = LONGEST_VALUE) -> str:
    """A predictor in one line; of a pipeline its last step, which predicts."""
    if predictor is None:
        return "none: losses were logged"
    # Who has a pipeline has imported its module, which takes longer than all others here.
    pipelines = sys.modules.get("sklearn.pipeline")
    if pipelines and isinstance(predictor, pipelines.Pipeline) and predictor.steps:
        return cut(f"Pipeline to {value_text(predictor.steps[-1][1], most)}", most)
    return value_text(predictor, most)


def _calibration(locus: Any) -> str:
    return type(locus.calibration_).__name__.removesuffix("Calibration").lower() or "own"


def _time(locus: Any) -> str:
    seconds = getattr(locus, "fit_seconds_", None)  # no archive has it
    return "" if seconds is None else f"fitted in {readable(round(seconds, 2))} s"
