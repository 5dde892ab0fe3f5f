"""Modules of torch as predictors: trained here, in a second or two, and used as people use them."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import Locus, Scorer
from locuscore.engines import Forest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check

from locuscore.torch import TorchPredictor, hidden_layer  # noqa: E402 - after the check

pytestmark = pytest.mark.extra

LABELS = [f"digit {d}" for d in range(10)]
FEW_TREES = Forest(n_trees=20)


class DigitNet(nn.Module):
    """A small convolutional net for images of 8 x 8."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout2d(0.2)
        self.hidden = nn.Linear(8 * 9, 24)
        self.drop_again = nn.Dropout(0.2)
        self.last = nn.Linear(24, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.drop(self.norm(self.conv(x)).relu()), 2)
        return self.last(self.drop_again(self.hidden(x.flatten(1)).relu()))


def as_images(rows):
    return torch.as_tensor(np.asarray(rows)).reshape(-1, 1, 8, 8) / 16.0


def trained(net, inputs, targets, loss, epochs, lr=1e-2):
    optimiser = torch.optim.Adam(net.parameters(), lr)
    for _ in range(epochs):
        for part in torch.arange(len(targets)).split(128):
            optimiser.zero_grad()
            loss(net(inputs[part]), targets[part]).backward()
            optimiser.step()
    return net  # in training mode, as people leave it


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32), y[order]
    # Noise, so that the net makes mistakes.
    X = X + np.random.default_rng(1).normal(scale=4.0, size=X.shape).astype(np.float32)
    torch.manual_seed(0)
    targets = torch.as_tensor(y[:600])
    net = trained(DigitNet(), as_images(X[:600]), targets, nn.functional.cross_entropy, 6)
    return SimpleNamespace(X=X, y=y, labels=np.array(LABELS)[y], net=net)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] ** 2 + (0.2 + np.abs(X[:, 2])) * rng.normal(size=700)
    nets = []
    for seed in range(3):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
        target = torch.as_tensor(y[:300, None], dtype=torch.float32)
        nets.append(trained(net, torch.as_tensor(X[:300]), target, nn.functional.mse_loss, 20))
    return SimpleNamespace(X=X, y=y, nets=nets)


def classifier(digits, **settings):
    return TorchPredictor(
        digits.net, as_images, kind="classification", classes=LABELS, batch_size=200, **settings
    )


# Answers


def test_a_module_is_run_in_evaluation_mode_and_left_as_it_was(digits):
    net = copy.deepcopy(digits.net).eval()
    with torch.no_grad():
        expected = net(as_images(digits.X)).softmax(dim=1).numpy()
    net.train()
    net.norm.eval()  # a part that is frozen while the rest is trained
    g = TorchPredictor(net, as_images, kind="classification", classes=LABELS)
    assert_close(g.predict_proba(digits.X), expected, atol=1e-5)
    assert (g.predict(digits.X) == np.array(LABELS)[expected.argmax(axis=1)]).all()
    assert net.training
    assert net.drop.training
    assert not net.norm.training
    assert all(not part._forward_hooks for part in net.modules())
    assert all(parameter.grad_fn is None for parameter in net.parameters())


def test_a_module_has_its_mode_back_after_an_error(digits):
    net = copy.deepcopy(digits.net).train()
    g = TorchPredictor(net, as_images, kind="classification")
    with raises(ValueError, "(28, 10)", "256 rows"):
        g.predict(digits.X[:, :7])
    assert net.training


@pytest.mark.parametrize("kind", ["one", "dropout", "ensemble"])
def test_a_row_has_the_same_answer_in_every_batch(kind, digits, regression):
    X = regression.X[:120]
    several = regression.nets if kind == "ensemble" else regression.nets[0]
    samples = 8 if kind == "dropout" else 0
    g = TorchPredictor(several, samples=samples, batch_size=50)
    whole = g.predict(X)
    singly = np.vstack([g.predict(X[i : i + 1]) for i in range(len(X))])
    order = np.random.default_rng(0).permutation(len(X))
    size = np.abs(whole).max()
    assert_close(singly, whole, atol=1e-6 * size)
    assert_close(g.predict(X[order]), whole[order], atol=1e-6 * size)
    if kind != "one":
        spread = g.mean_and_spread(X)[1]
        parts = [g.mean_and_spread(X[i : i + 1])[1] for i in range(len(X))]
        assert_close(np.vstack(parts), spread, atol=2e-6 * size)
        assert (spread > 0).all()
    double = TorchPredictor(copy.deepcopy(regression.nets[0]).double())
    parts = [double.predict(X[i : i + 1]) for i in range(len(X))]
    assert_close(np.vstack(parts), double.predict(X), rtol=1e-11)


def test_dropout_samples_are_thinned_networks_with_fixed_masks(regression):
    net, X = regression.nets[0], regression.X[:40]
    g = TorchPredictor(net, samples=5, seed=3)
    first, _, _, last = copy.deepcopy(net).eval()
    answers = []
    for sample in range(5):
        kept = np.random.default_rng((3, sample, 0, 1)).random(32) >= 0.2
        with torch.no_grad():
            hidden = first(torch.as_tensor(X)).relu() * torch.as_tensor(kept / 0.8).float()
            answers.append(last(hidden).numpy())
    mean, spread = g.mean_and_spread(X)
    assert mean is None  # the prediction is that without dropout
    assert_close(spread, np.std(answers, axis=0), rtol=1e-4, atol=1e-6)
    assert_close(g.predict(X), TorchPredictor(net).predict(X))


def test_an_ensemble_answers_with_its_mean(regression):
    X = regression.X[:40]
    g = TorchPredictor(regression.nets)
    alone = np.stack([TorchPredictor(net).predict(X) for net in regression.nets])
    mean, spread = g.mean_and_spread(X)
    assert_close(g.predict(X), alone.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert_close(mean, alone.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert_close(spread, alone.std(axis=0), rtol=1e-4, atol=1e-6)


def test_one_logit_is_that_of_the_second_class():
    net = nn.Linear(1, 1)
    nn.init.constant_(net.weight, 2.0), nn.init.zeros_(net.bias)
    X = np.array([[-1.0], [0.5]])
    g = TorchPredictor(net, kind="classification", classes=["no", "yes"])
    p = 1 / (1 + np.exp(-2 * X[:, 0]))
    assert_close(g.predict_proba(X), np.column_stack([1 - p, p]), rtol=1e-6)
    assert g.predict(X).tolist() == ["no", "yes"]
    plain = TorchPredictor(net, kind="classification")
    assert plain.predict(X).tolist() == [0, 1]
    assert not hasattr(plain, "classes_")


def test_probabilities_and_several_outputs_and_masks():
    X = np.random.default_rng(0).normal(size=(6, 4))
    torch.manual_seed(0)
    shares = TorchPredictor(nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), kind="probabilities")
    assert_close(shares.predict_proba(X).sum(axis=1), np.ones(6), rtol=1e-6)
    several = TorchPredictor(nn.Linear(4, 2))
    assert several.predict(X).shape == (6, 2)
    assert not hasattr(several, "predict_proba")
    assert not hasattr(several, "mean_and_spread")
    masks = TorchPredictor(nn.Unflatten(1, (1, 2, 2)), kind="mask").predict(X)
    assert (masks == (X > 0).reshape(6, 2, 2)).all()


def test_what_a_module_is_called_with_may_be_a_tuple_or_a_dict():
    class Sum(nn.Module):
        def forward(self, a, b):
            return SimpleNamespace(logits=a + b)

    X = np.arange(6.0).reshape(3, 2)
    parts = {"a": lambda X: torch.as_tensor(X[:, 0]), "b": lambda X: torch.as_tensor(X[:, 1])}
    by_name = TorchPredictor(Sum(), lambda X: {name: part(X) for name, part in parts.items()})
    by_place = TorchPredictor(Sum(), lambda X: tuple(part(X) for part in parts.values()))
    assert_close(by_name.predict(X), X.sum(axis=1))
    assert_close(by_place.predict(X), X.sum(axis=1))


# Through a Locus


def test_digits_go_through_fit_bound_rule_and_scorer(digits, tmp_path):
    g = classifier(digits, samples=4)
    X, y = digits.X, digits.labels
    layer = hidden_layer(g, "hidden")
    signals = ["predictor", layer]
    locus = Locus(g, loss="log", signals=signals, engine=FEW_TREES, random_state=0)
    locus.fit(X[600:1400], y[600:1400])
    assert locus.signals_.own_width == 4  # class, margin, entropy, spread over the samples
    assert locus.signals_.function_width == 24
    z, bound = locus.losses(X[1400:], y[1400:]), locus.loss_bound(X[1400:], alpha=0.2)
    assert 0.7 < np.mean(z <= bound) < 0.9
    rule = locus.certify(tau=np.log(2), eta=0.3, delta=0.1)
    scorer = Scorer(locus, rule)
    found = scorer(X[1400:])
    assert found["prediction"].tolist() == g.predict(X[1400:]).tolist()
    assert 0 < found["flag"].mean() < 1
    again = scorer(X[1400:1405])
    assert_close(again["bound_0.1"], found["bound_0.1"][:5], rtol=1e-4)
    path = tmp_path / "digits.locus"
    scorer.save(path)
    with raises(ValueError, "TorchPredictor", "predictor=g"):
        Scorer.load(path, signals=layer)
    loaded = Scorer.load(path, predictor=g, signals=layer)
    assert_close(loaded(X[1400:])["bound_0.1"], found["bound_0.1"], rtol=1e-9)
    other = copy.deepcopy(digits.net)
    with torch.no_grad():
        other.last.bias += 0.05 * torch.arange(10)
    changed = TorchPredictor(other, as_images, kind="classification", classes=LABELS, samples=4)
    assert not np.allclose(changed.predict_proba(X[1400:]), g.predict_proba(X[1400:]))
    loaded = Scorer.load(path, predictor=changed, signals=hidden_layer(changed, "hidden"))
    assert_close(loaded(X[1400:])["bound_0.1"], found["bound_0.1"], rtol=1e-9)
    dim = TorchPredictor(other, lambda rows: as_images(rows) / 2, kind="classification")
    with raises(ValueError, "not the one of fit"):  # the same weights, another transform
        Scorer.load(path, predictor=dim, signals=layer)


def test_the_spread_of_members_is_a_signal(regression):
    X, y = regression.X, regression.y
    g = TorchPredictor(regression.nets)
    locus = Locus(g, signals=["x", "predictor"], engine=FEW_TREES, random_state=0)
    locus.fit(X[300:], y[300:])
    assert locus.signals_.names(g, list("abcd"), 6)[4:] == ["prediction", "spread of the predictor"]
    assert np.isfinite(locus.loss_bound(X[:5])).all()
    assert_close(pickle.loads(pickle.dumps(g)).predict(X[:5]), g.predict(X[:5]))


def test_masks_of_a_module_are_compared_by_iou():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4, 4)).astype(np.float32)
    y = X + 0.5 * rng.normal(size=X.shape) > 0
    g = TorchPredictor(nn.Identity(), kind="mask")
    locus = Locus(g, loss="iou", signals="predictor", engine=FEW_TREES, random_state=0).fit(X, y)
    said = X > 0
    both, either = ((y & said).sum(axis=(1, 2)), (y | said).sum(axis=(1, 2)))
    assert_close(locus.losses(X, y), 1 - both / either)
    assert Scorer(locus)(X[:3])["prediction"].shape == (3, 4, 4)


class Bag(nn.Module):
    """A small classifier of texts: the mean of the embeddings of their words."""

    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(257, 8, padding_idx=256)
        self.last = nn.Linear(8, 2)

    def forward(self, codes):
        return self.last(self.words(codes))


def as_codes(rows):
    """Words as hashes; texts are filled up to one length, not to the longest of a batch."""
    from sklearn.feature_extraction.text import HashingVectorizer

    texts = [row if isinstance(row, str) else row[0] for row in rows]
    hashed = HashingVectorizer(n_features=256, alternate_sign=False, norm=None).transform(texts)
    codes = torch.full((len(texts), 12), 256)
    for i, row in enumerate(hashed):
        codes[i, : len(row.indices)] = torch.as_tensor(row.indices[:12])
    return codes


def reviews(n, seed):
    rng = np.random.default_rng(seed)
    words = {0: ["bad", "slow", "rude", "cold"], 1: ["good", "fast", "kind", "warm"]}
    y = rng.integers(0, 2, size=n)
    own = rng.binomial(5, 0.7, size=n)
    texts = [
        " ".join([*rng.choice(words[c], k), *rng.choice(words[1 - c], 5 - k), f"item{i % 40}"])
        for i, (c, k) in enumerate(zip(y.tolist(), own.tolist(), strict=True))
    ]
    return texts, y


@pytest.mark.parametrize("kind", ["list", "column"])
def test_texts_go_through_fit_bound_rule_and_scorer(kind):
    (old, y_old), (texts, y) = reviews(300, 0), reviews(700, 1)
    torch.manual_seed(0)
    loss = nn.functional.cross_entropy
    net = trained(Bag(), as_codes(old), torch.as_tensor(y_old), loss, 10, lr=0.05)
    g = TorchPredictor(net, as_codes, kind="classification", batch_size=64)
    X = texts if kind == "list" else np.array(texts, dtype=object)[:, None]
    assert_close(g.predict_proba(X), g.predict_proba(texts))
    signals = ["predictor", hidden_layer(g, "words")]
    locus = Locus(g, loss="log", signals=signals, engine=FEW_TREES, random_state=0)
    locus.fit(X[:500], y[:500])
    z = locus.losses(X[500:], y[500:])
    assert 0.8 < np.mean(z <= locus.loss_bound(X[500:], alpha=0.1)) < 0.98
    scorer = Scorer(locus, locus.certify(tau=np.log(2), eta=0.25, delta=0.1))
    found = scorer(X[500:])
    assert found["flag"].mean() < 1
    right = found["prediction"] == y[500:]
    assert right[~found["flag"]].mean() > right.mean()


# Layers


def test_a_hidden_layer_gives_its_activations_flat_and_removes_its_hook(digits):
    g = classifier(digits)
    net = copy.deepcopy(digits.net).eval()
    with torch.no_grad():
        expected = net.norm(net.conv(as_images(digits.X[:300]))).flatten(1).numpy()
    found = hidden_layer(g, "norm")(digits.X[:300])
    assert found.dtype == np.float64
    assert_close(found, expected, atol=1e-4)
    assert not digits.net.norm._forward_hooks
    assert digits.net.training


def test_bad_layers_are_told_in_one_sentence(digits):
    g = classifier(digits)
    with raises(ValueError, "'hiden'", "conv, norm, drop, hidden, drop_again, last"):
        hidden_layer(g, "hiden")
    with raises(TypeError, "TorchPredictor", "DigitNet"):
        hidden_layer(digits.net, "hidden")

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Flatten(0), nn.Identity()

        def forward(self, x):
            return self.used(x).reshape(len(x), -1)[:, 0]

    odd = TorchPredictor(Odd())
    with raises(ValueError, "'unused'", "not run"):
        hidden_layer(odd, "unused")(np.zeros((3, 2)))
    with raises(ValueError, "'used'", "(6,)", "3 rows"):
        hidden_layer(odd, "used")(np.zeros((3, 2)))


# Bad input


def test_bad_predictors_are_told_in_one_sentence(regression):
    net = regression.nets[0]
    with raises(TypeError, "torch.nn.Module", "function"):
        TorchPredictor(lambda x: x)
    with raises(TypeError, "list of some"):
        TorchPredictor([])
    with raises(ValueError, "'regression', 'classification'", "'labels'"):
        TorchPredictor(net, kind="labels")
    with raises(TypeError, "transform", "3"):
        TorchPredictor(net, 3)
    with raises(ValueError, "batch_size", "0"):
        TorchPredictor(net, batch_size=0)
    for classes in (["a", "a"], ["a"]):
        with raises(ValueError, "distinct"):
            TorchPredictor(net, kind="classification", classes=classes)
    with raises(ValueError, "kind='classification'"):
        TorchPredictor(net, classes=["a", "b"])
    with raises(ValueError, "at least 2", "1 for 1"):
        TorchPredictor(net, samples=1)
    with raises(ValueError, "at least 2", "5 for 3"):
        TorchPredictor(regression.nets, samples=5)
    with raises(ValueError, "needs dropout", "Linear"):
        TorchPredictor(nn.Linear(2, 1), samples=5)
    for device in ("cuda:9", "meta", "gpu"):
        with raises(ValueError, repr(device), "not available", "leave device out"):
            TorchPredictor(net, device=device)
    assert TorchPredictor(net, device="cpu").batches.device.type == "cpu"


@pytest.mark.parametrize(
    ("net", "kind", "facts"),
    [
        (nn.Unflatten(1, (2, 2)), "regression", ("(5, 2, 2)", "5 rows", "(rows, outputs)")),
        (nn.Linear(4, 3), "mask", ("(5, 3)", "height")),
        (nn.Flatten(0), "regression", ("(20,)", "5 rows")),
        (nn.Linear(4, 1), "probabilities", ("(5, 1)", "(rows, classes)")),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)), "classification", ("'probabilities'",)),
    ],
)
def test_wrong_outputs_are_told_in_one_sentence(net, kind, facts):
    with raises(ValueError, *facts):
        TorchPredictor(net, kind=kind).predict(np.random.default_rng(0).normal(size=(5, 4)))


def test_other_wrong_answers_are_told_in_one_sentence():
    X = np.ones((5, 4))
    with raises(ValueError, "3 classes", "2 names"):
        TorchPredictor(nn.Linear(4, 3), kind="classification", classes=["a", "b"]).predict(X)
    with raises(TypeError, "one tensor", "tuple"):
        TorchPredictor(nn.LSTM(4, 2, batch_first=True)).predict(X)
    with raises(TypeError, "transform", "list"):
        TorchPredictor(nn.Linear(4, 1), lambda X: {"input": X.tolist()}).predict(X)
    with raises(TypeError, "<U1", "transform"):
        TorchPredictor(nn.Linear(4, 1)).predict(np.full((5, 4), "a"))
    with raises(TypeError, "torch.Tensor", ".detach().cpu().numpy()"):
        TorchPredictor(nn.Linear(4, 1)).predict(torch.empty(5, 4, device="meta"))


def test_rows_without_a_finite_answer_are_bad_rows(regression):
    X, y = regression.X[300:500].astype(float), regression.y[300:500]

    class Root(nn.Module):
        def forward(self, x):
            return x[:, 0].sqrt()

    X[:, 0] = np.abs(X[:, 0])
    g = TorchPredictor(Root(), batch_size=4)
    locus = Locus(g, signals="predictor", engine=FEW_TREES, random_state=0).fit(X, y)
    new = X[:10].copy()
    new[[2, 7], 0] = -1.0
    with raises(ValueError, "Root", "NaN or infinity", "row 2"):
        locus.loss_bound(new)
    columns, is_bad = Scorer(locus).tolerate(new)
    assert np.flatnonzero(is_bad).tolist() == [2, 7]
    assert np.isfinite(columns["bound_0.1"][~is_bad]).all()


def test_dropout_that_mixes_rows_is_refused():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x.T).T[:, 0]

    class Never(Turned):
        def forward(self, x):
            return x[:, 0]

    X = np.ones((5, 4))
    with raises(ValueError, "'drop'", "(4, 5)", "batch of 5", "batch_first"):
        TorchPredictor(Turned(), samples=2).mean_and_spread(X)
    with raises(ValueError, "no dropout layer", "was run"):
        TorchPredictor(Never(), samples=2).mean_and_spread(X)


def test_frames_and_sparse_rows_are_numbers_too(regression):
    import pandas
    from scipy import sparse

    g, X = TorchPredictor(regression.nets[0]), regression.X[:10]
    expected = g.predict(X)
    assert_close(g.predict(pandas.DataFrame(X)), expected)
    assert_close(g.predict(pandas.DataFrame(X.astype(object))), expected)
    assert_close(g.predict(sparse.csr_matrix(X)), expected)
    assert_close(g.predict(torch.as_tensor(X)), expected)
    assert g.predict(X[:0]).shape == (0, 1)


def test_alpha_dropout_makes_no_samples():
    """It sets values to a number other than zero, so the masks of a sample would not be its own."""
    with raises(ValueError, "samples=3", "AlphaDropout"):
        TorchPredictor(
            nn.Sequential(nn.Linear(2, 4), nn.AlphaDropout(), nn.Linear(4, 1)), samples=3
        )
    net = nn.Sequential(nn.Linear(2, 4), nn.AlphaDropout(), nn.Dropout(), nn.Linear(4, 1))
    _, spread = TorchPredictor(net, samples=3).mean_and_spread(np.ones((2, 2)))
    assert (spread == spread[0]).all()
    assert spread.min() > 0
