"""Engines by name: one table for `Locus` and the command line."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from helpers import raises
from locuscore import Locus, engines
from locuscore.engines import NAMES, Forest, QuantileGrid, Scale, resolve_engine

RNG = np.random.default_rng(0)
S, Z = RNG.uniform(size=(120, 2)), RNG.exponential(size=120)


def test_every_engine_has_a_name():
    named = {*NAMES.values(), *(call.split("(")[0] for call in engines._NEED_ARGUMENTS.values())}
    others = {"EngineSelection", "default_engine", "select_engine"}
    assert named == set(engines.__all__) - others


def test_a_name_means_the_class_with_its_usual_settings():
    for name, kind in (("forest", Forest), ("quantile_grid", QuantileGrid), ("Scale", Scale)):
        engine = resolve_engine(name)
        assert type(engine) is kind
        assert engine.get_params() == kind().get_params()
    assert type(resolve_engine("QuantileGrid")) is type(resolve_engine("quantilegrid"))


@pytest.mark.extra
@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_made(name):
    assert type(resolve_engine(name)).__name__ == NAMES[name]


def test_locus_keeps_the_name():
    locus = Locus(None, engine="scale", signals="x", random_state=0)
    copy = clone(locus.fit_losses(S, Z))
    assert copy.get_params()["engine"] == locus.engine == "scale"
    assert "scale" in repr(copy)
    same = Locus(None, engine=Scale(), signals="x", random_state=0).fit_losses(S, Z)
    assert np.array_equal(locus.loss_bound(S, 0.2), same.loss_bound(S, 0.2))
    assert type(locus.engine_) is Scale


def test_an_unknown_name_lists_the_known_ones():
    with raises(ValueError, "'tree'", *NAMES):
        Locus(None, engine="tree", signals="x").fit_losses(S, Z)


@pytest.mark.parametrize("name", engines._NEED_ARGUMENTS)
def test_an_engine_that_needs_an_argument_says_so(name):
    call = engines._NEED_ARGUMENTS[name]
    with raises(ValueError, repr(name), f"engines.{call}"):
        resolve_engine(name)


@pytest.mark.extra
@pytest.mark.parametrize("call", engines._NEED_ARGUMENTS.values())
def test_the_argument_is_the_one_it_needs(call):
    kind, argument = call.removesuffix(")").split("(")
    first, *_ = inspect.signature(getattr(engines, kind)).parameters.values()
    assert (first.name, first.default) == (argument, inspect.Parameter.empty)
