import numpy as np
import pytest
from scipy.stats import norm

from helpers import assert_binomial, assert_close, raises
from locuscore.testing._generators import GENERATORS

ALPHAS = (0.01, 0.1, 0.3, 0.6, 0.9)
EVERY = pytest.mark.parametrize("name", GENERATORS)


def other(X):
    """A predictor that nobody suggested, uses an inactive feature and misses the atom's rule."""
    return 0.5 + X[:, 0] + 0.3 * X[:, 4]


class Fitted:
    predict = staticmethod(other)


def predictors(generator):
    return (generator.predictor, other)


@EVERY
def test_losses_exceed_as_often_as_the_closed_form_says(name, rng):
    generator, repeats = GENERATORS[name], 20_000
    for x in rng.uniform(size=(3, 5)):
        X = np.tile(x, (repeats, 1))
        y = generator.sample_targets(X, rng)
        for g in predictors(generator):
            z = np.abs(y - g(X))
            for alpha in (0.05, 0.3):
                q = generator.loss_quantile(X[:1], g, alpha).item()
                assert_binomial(np.sum(z > q), repeats, generator.loss_sf(X[:1], g, q).item())
            for tau in (0.0, 0.2, 1.0):
                truth = generator.exceedance(X[:1], g, tau).item()
                assert_binomial(np.sum(z > tau), repeats, truth)


@EVERY
def test_the_experiment_would_notice_a_wrong_scale(name, rng):
    generator = GENERATORS[name]
    X = np.full((20_000, 5), 0.5)
    z = np.abs(generator.sample_targets(X, rng) - generator.predictor(X))
    wrong = generator.loss_sf(X[:1], generator.predictor, 0.45).item()
    with pytest.raises(AssertionError):
        assert_binomial(np.sum(z > 0.5), len(z), wrong)


@EVERY
def test_the_marginal_exceedance_is_the_mean_of_the_conditional_one(name, rng):
    generator = GENERATORS[name]
    X, y = generator.sample(20_000, rng)
    g = generator.predictor
    exceeding = np.sum(np.abs(y - g(X)) > 0.5)
    fresh, _ = generator.sample(400_000, rng)
    assert_binomial(exceeding, len(y), generator.exceedance(fresh, g, 0.5).mean())


@EVERY
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_quantile_is_the_upper_inverse_of_the_survival(name, alpha, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(500, rng)
    for g in predictors(generator):
        q = generator.loss_quantile(X, g, alpha)
        just_above, just_below = q + 1e-12 * (1 + q), q - 1e-12 * (1 + q)
        assert np.all(generator.loss_sf(X, g, just_above) < alpha)
        assert np.all(generator.loss_sf(X, g, just_below) >= alpha)
        atomless = generator.mass(X) == 0
        assert_close(generator.loss_sf(X, g, q)[atomless], alpha, rtol=1e-12)


@EVERY
def test_the_quantile_falls_with_alpha_and_the_survival_with_z(name, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(200, rng)
    for g in predictors(generator):
        q = np.array([generator.loss_quantile(X, g, a) for a in ALPHAS])
        s = np.array([generator.loss_sf(X, g, z) for z in (-1.0, 0.0, 0.1, 1.0, 10.0, np.inf)])
        assert np.all(np.diff(q, axis=0) <= 0)
        assert np.all(np.diff(s, axis=0) <= 0)
        assert np.all((s[0] == 1) & (s[-1] == 0))


def test_without_misfit_the_quantile_is_a_closed_form(rng):
    generator = GENERATORS["smooth"]
    X, _ = generator.sample(100, rng)
    q = generator.loss_quantile(X, generator.predictor, 0.1)
    assert_close(q, generator.scale(X) * norm.isf(0.05), rtol=1e-13)


def test_large_losses_lie_where_the_variance_is_small(rng):
    generator = GENERATORS["misfit"]
    X, _ = generator.sample(5000, rng)
    q = generator.loss_quantile(X, generator.predictor, 0.1)
    worst = q > np.quantile(q, 0.9)
    assert generator.scale(X)[worst].mean() < 0.7 * generator.scale(X).mean()
    design = np.column_stack([np.ones(len(X)), X])
    line = np.linalg.lstsq(design, generator.mean(X), rcond=None)[0]
    assert_close(line, [0.125, 0, 0.25, 0, 0, 0], atol=0.05)


def test_the_zero_inflated_loss_is_exactly_zero_at_its_atom(rng):
    generator = GENERATORS["zero_inflated"]
    X = np.tile(rng.uniform(size=5), (20_000, 1))
    y, p = generator.sample_targets(X, rng), generator.mass(X)[0]
    assert_binomial(np.sum(y == generator.predictor(X)), len(X), p)
    # Another predictor has its atom elsewhere, to the last digit.
    z, (atom,) = np.abs(y - other(X)), np.abs(generator.rule(X[:1]) - other(X[:1]))
    assert_binomial(np.sum(z == atom), len(X), p)
    below, at = (generator.loss_sf(X[:1], other, v) for v in (np.nextafter(atom, 0), atom))
    assert_close(below - at, p, rtol=1e-12)
    assert generator.loss_quantile(X[:1], generator.predictor, 1 - p / 2).item() == 0.0


@EVERY
def test_three_features_matter(name, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(50, rng)
    g = generator.predictor

    def truth(X):
        return generator.loss_quantile(X, g, 0.1), generator.exceedance(X, g, 0.5), g(X)

    for j in range(5):
        changed = X.copy()
        changed[:, j] = rng.uniform(size=50)
        same = [np.array_equal(a, b) for a, b in zip(truth(X), truth(changed), strict=True)]
        assert all(same) if j >= 3 else not any(same[:2])


@EVERY
def test_samples_repeat_and_have_five_features(name):
    generator = GENERATORS[name]
    assert generator.name == name
    assert generator.description
    (X, y), (X2, y2) = generator.sample(20, 7), generator.sample(20, np.random.default_rng(7))
    assert X.shape == (20, 5)
    assert y.shape == (20,)
    assert_close(X, X2)
    assert_close(y, y2)


@EVERY
def test_a_predictor_may_be_an_object(name, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(20, rng)
    assert_close(generator.exceedance(X, Fitted(), 0.5), generator.exceedance(X, other, 0.5))


def test_bad_input():
    generator = GENERATORS["smooth"]
    X, _ = generator.sample(3, 0)
    with raises(ValueError, "(n, 5)", "got (3, 4)"):
        generator.exceedance(X[:, :4], generator.predictor, 0.5)
    with pytest.raises(ValueError, match="alpha"):
        generator.loss_quantile(X, generator.predictor, 1.0)
    with pytest.raises(ValueError, match="tau"):
        generator.exceedance(X, generator.predictor, np.nan)
    with pytest.raises(TypeError, match="predictor"):
        generator.exceedance(X, "linear", 0.5)
