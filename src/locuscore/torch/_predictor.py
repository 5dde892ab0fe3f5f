"""TorchPredictor: a module, or an ensemble of them, as a predictor of rows."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, get_args

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from torch import Tensor, nn

from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import BadRowsError, check_count
from locuscore.torch._dropout import dropout_layers, thinned
from locuscore.torch._running import (
    Batch,
    Batches,
    Transform,
    as_numpy,
    checked_device,
    evaluated,
    float_type,
)

Kind = Literal["regression", "classification", "probabilities", "mask"]
ROUNDING = 1e-4  # of probabilities that add up to 1, in single precision
SHAPES = {
    "regression": "(rows,) or (rows, outputs)",
    "classification": "(rows, classes), or (rows,) or (rows, 1) of two classes",
    "probabilities": "(rows, classes)",
    "mask": "(rows, height, width) or (rows, 1, height, width)",
}


class TorchPredictor:
    """A torch module, or an ensemble of them, as a predictor of rows.

    The module is run in batches, without gradients and in evaluation mode; afterwards each of its
    parts has its former mode back, and answers are arrays on the CPU. It is never trained here.

    Nothing is random: a row has the same answer in every batch, up to rounding (for weights in
    single precision about 1e-6 of the row's largest output; pass ``module.double()`` for 1e-12).
    This needs a `transform` that treats rows one by one, such as padding texts to one fixed length.

    Parameters
    ----------
    module
        A trained `nn.Module`. A list of modules is an ensemble: it answers with their mean, of
        outputs or of probabilities, and their standard deviation is a signal of the loss model.
    transform
        Turns some rows of X into a tensor, or into a tuple or dict of tensors that the module is
        called with. None for tables of numbers. Floats are converted to the type of the weights.
    batch_size
        Rows that the module sees at once.
    device
        Where to run; the module is moved there. None for where its weights are.
    kind
        What the module returns: ``"regression"``, numbers of shape (rows,), (rows, 1) or (rows,
        outputs); ``"classification"``, logits of (rows, classes), or one logit of the second of two
        classes; ``"probabilities"`` of (rows, classes); ``"mask"``, one logit for each pixel, and
        `predict` gives truth values.
    classes
        Names of the classes, in the order of the outputs; None for 0, 1, 2, ...
    samples
        Number of dropout samples, at least 2, whose standard deviation is a signal of the loss
        model; 0 for none. Predictions are those without dropout. Each sample is one thinned
        network: its masks depend on `seed` alone and are the same for all rows, so that a row's
        answer does not depend on its batch. Layers of the classes `nn.Dropout`, `nn.Dropout1d`,
        `nn.Dropout2d` and `nn.Dropout3d` are dropped, all others stay in evaluation mode.
    seed
        Seed of the masks.

    Attributes
    ----------
    modules
        The modules, in a tuple.
    classes_
        The names of the classes, if given.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from locuscore.torch import TorchPredictor
    >>> _ = torch.manual_seed(0)
    >>> g = TorchPredictor(torch.nn.Linear(2, 3), kind="classification", classes=["a", "b", "c"])
    >>> g.predict_proba(np.zeros((5, 2))).shape
    (5, 3)
    """

    def __init__(
        self,
        module: nn.Module | Sequence[nn.Module],
        transform: Transform | None = None,
        *,
        batch_size: int = 256,
        device: Any = None,
        kind: Kind = "regression",
        classes: Sequence[Any] | None = None,
        samples: int = 0,
        seed: int = 0,
    ) -> None:
        self.modules = _checked_modules(module)
        if kind not in get_args(Kind):
            raise ValueError(f"kind is one of {get_args(Kind)}; got {kind!r}.")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be a function of some rows; got {transform!r}.")
        self.kind, self.is_class = kind, kind in ("classification", "probabilities")
        if classes is not None:
            self.classes_ = _checked_classes(classes, self.is_class)
        self.samples, self.seed = check_count(samples, "samples", 0), check_count(seed, "seed", 0)
        self._check_samples()
        at = checked_device(device, self.modules)
        for part in self.modules:
            part.to(at)
        size = check_count(batch_size, "batch_size")
        self.batches = Batches(transform, size, at, float_type(self.modules[0]))

    def __repr__(self) -> str:
        names = ", ".join(type(part).__name__ for part in self.modules)
        return f"TorchPredictor({names}, kind={self.kind!r})"

    def predict(self, X: Rows) -> np.ndarray:
        """Numbers, names of classes (or their codes, without names), or masks of truth values."""
        if self.is_class:
            codes = self._mean(X).argmax(axis=1)
            known: np.ndarray | None = getattr(self, "classes_", None)
            return codes if known is None else known[codes]
        found = self._mean(X)
        return found > 0.5 if self.kind == "mask" else found

    @available_if(lambda self: self.is_class)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> FloatArray:
        """Probabilities of the classes, (rows, classes)."""
        return self._mean(X)

    @available_if(lambda self: self.n_members > 1)  # type: ignore[untyped-decorator]
    def mean_and_spread(self, X: Rows) -> tuple[FloatArray | None, FloatArray]:
        """Mean, if it is the prediction, and standard deviation over members or dropout samples.

        The deviation is that of each output, or of each class's probability, and for masks the mean
        over pixels of that of their probabilities.
        """
        is_prediction = self.kind == "regression" and not self.samples
        found = self._of_batches(X, self._mean_and_spread, with_samples=self.samples > 0)
        mean, spread = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return (mean if is_prediction else None), spread

    def _mean_and_spread(self, answers: list[np.ndarray]) -> tuple[FloatArray, FloatArray]:
        flat = np.stack([_flat(part) for part in answers]).astype(np.float64)
        # Differences to one member: exactly zero where the members agree.
        spread = (flat - flat[0]).std(axis=0)
        if self.kind == "mask":
            spread = spread.mean(axis=1, keepdims=True)
        return flat.mean(axis=0), spread

    @property
    def n_members(self) -> int:
        """Number of dropout samples, or of modules."""
        return self.samples or len(self.modules)

    def _mean(self, X: Rows) -> np.ndarray:
        """Numbers or probabilities of all rows, averaged over the modules."""
        return np.concatenate(self._of_batches(X, lambda answers: np.mean(answers, axis=0)))

    def _of_batches(
        self, X: Rows, reduce: Callable[[list[np.ndarray]], Any], *, with_samples: bool = False
    ) -> list[Any]:
        """What is made of the answers of all members, or dropout samples, batch by batch."""
        found, module = [], self.modules[0]
        with evaluated(self.modules):
            for batch in self.batches.of(X):
                if with_samples:
                    answers = [self._answer(module, batch, s) for s in range(self.samples)]
                else:
                    answers = [self._answer(module, batch) for module in self.modules]
                found.append(reduce(answers))
        return found

    def _answer(self, module: nn.Module, batch: Batch, sample: int | None = None) -> np.ndarray:
        how = nullcontext() if sample is None else thinned(module, sample, batch.n, self.seed)
        with how:
            output = batch.run(module)
        output = getattr(output, "logits", output)
        if not isinstance(output, Tensor):
            raise TypeError(
                f"the module {type(module).__name__} must return one tensor; got "
                f"{type(output).__name__}. Wrap it in a module that returns the tensor alone."
            )
        values = as_numpy(output)
        self._check_shape(values, batch.n)
        bad = np.flatnonzero(~np.isfinite(_flat(values)).all(axis=1))
        if len(bad):
            raise BadRowsError(
                f"the module {type(module).__name__} returned NaN or infinity for {len(bad)} rows "
                f"out of {batch.n} of a batch",
                bad + batch.start,
                "such a prediction has no loss to bound. Leave those rows out.",
            )
        return self._read(values)

    def _read(self, values: np.ndarray) -> np.ndarray:
        """Numbers as they are, probabilities from logits; in the precision of the module."""
        if self.kind == "regression":
            return values
        if self.kind == "mask":
            return _sigmoid(values).astype(values.dtype).reshape(len(values), *values.shape[-2:])
        if values.ndim == 1 or values.shape[1] == 1:
            p = _sigmoid(values.reshape(-1))
            return np.column_stack([1.0 - p, p]).astype(values.dtype)
        self._check_kind(values)
        if self.kind == "probabilities":
            return values
        shifted = values.astype(np.float64) - values.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        return (powers / powers.sum(axis=1, keepdims=True)).astype(values.dtype)

    def _check_shape(self, values: np.ndarray, n: int) -> None:
        shape, kind = values.shape, self.kind
        fits = {
            "regression": len(shape) in (1, 2),
            "classification": len(shape) in (1, 2),
            "probabilities": len(shape) == 2 and shape[1] > 1,
            "mask": len(shape) == 3 or (len(shape) == 4 and shape[1] == 1),
        }
        if not shape or shape[0] != n or not fits[kind]:
            raise ValueError(
                f"the module returned shape {shape} for {n} rows; kind={kind!r} needs "
                f"{SHAPES[kind]}. Choose another kind, or wrap the module."
            )
        n_classes = max(shape[1] if len(shape) == 2 else 1, 2)
        if hasattr(self, "classes_") and len(self.classes_) != n_classes:
            raise ValueError(
                f"the module gives {n_classes} classes, but `classes` has {len(self.classes_)} "
                "names."
            )

    def _check_kind(self, values: np.ndarray) -> None:
        off = np.abs(values.sum(axis=1, dtype=np.float64) - 1.0)
        are_shares = bool(len(values) > 1 and (values >= 0).all() and (off < ROUNDING).all())
        if self.kind == "classification" and are_shares:
            raise ValueError(
                "the module returned probabilities, where kind='classification' expects logits; "
                "use kind='probabilities'."
            )

    def _check_samples(self) -> None:
        if not self.samples:
            return
        if self.samples == 1 or len(self.modules) > 1:
            raise ValueError(
                f"samples is 0, or at least 2 dropout samples of one module; got {self.samples} "
                f"for {len(self.modules)} modules."
            )
        if not dropout_layers(self.modules[0]):
            raise ValueError(
                f"samples={self.samples} needs dropout, but {type(self.modules[0]).__name__} has "
                "no layer of nn.Dropout, Dropout1d, Dropout2d or Dropout3d with p > 0 (not "
                "AlphaDropout); leave samples out, or pass a list of modules as an ensemble."
            )


def _checked_modules(module: Any) -> tuple[nn.Module, ...]:
    several = tuple(module) if isinstance(module, list | tuple) else (module,)
    if not several or not all(isinstance(part, nn.Module) for part in several):
        kinds = [type(part).__name__ for part in several]
        raise TypeError(
            f"TorchPredictor needs a torch.nn.Module, or a list of some; got {', '.join(kinds)}."
        )
    return several


def _checked_classes(classes: Sequence[Any], is_class: bool) -> np.ndarray:
    names = np.asarray(classes)
    if not is_class or names.ndim != 1 or len(np.unique(names)) != len(names) or len(names) < 2:
        raise ValueError(
            "classes are the distinct names of two classes or more, for kind='classification' or "
            f"'probabilities'; got {classes!r:.100}."
        )
    return names


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), math.prod(values.shape[1:]))


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return torch.sigmoid(torch.as_tensor(logits, dtype=torch.float64)).numpy()
