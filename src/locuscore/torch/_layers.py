"""The activations of a named layer, as signals."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from locuscore._protocols import FloatArray, Rows
from locuscore.torch._predictor import TorchPredictor
from locuscore.torch._running import as_numpy, evaluated

MOST_NAMED = 20


@dataclass(frozen=True, eq=False, repr=False)
class HiddenLayer:
    """A function of X: the activations of one layer, see `hidden_layer`.

    Examples
    --------
    ::

        embedding = hidden_layer(predictor, "body.2")  # a HiddenLayer
        Locus(predictor, signals=["all", embedding]).fit(X_cal, y_cal)
    """

    predictor: TorchPredictor
    name: str

    def __repr__(self) -> str:
        return f"HiddenLayer({self.predictor!r}, {self.name!r})"

    def __call__(self, X: Rows) -> FloatArray:
        predictor, seen = self.predictor, []
        module, found = predictor.modules[0], []
        layer = module.get_submodule(self.name)
        handle = layer.register_forward_hook(lambda _, inputs, output: seen.append(output))
        try:
            with evaluated(predictor.modules):
                for batch in predictor.batches.of(X):
                    seen.clear()
                    batch.run(module)
                    found.append(self._rows(seen, batch.n))
        finally:
            handle.remove()
        return np.vstack(found)

    def _rows(self, seen: list[Any], n: int) -> FloatArray:
        """What the layer gave in one batch, flat; of several calls, in the last."""
        if not seen:
            raise ValueError(
                f"the layer {self.name!r} was not run; a fused layer of torch may have replaced "
                "it. Name the layer that holds it."
            )
        value = seen[-1][0] if isinstance(seen[-1], tuple | list) else seen[-1]
        if not isinstance(value, Tensor) or not value.ndim or len(value) != n:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"the layer {self.name!r} gave {shape} for {n} rows; activations must have one row "
                "for each. Name another layer."
            )
        flat = as_numpy(value).reshape(n, math.prod(value.shape[1:]))
        return flat.astype(np.float64)


def hidden_layer(predictor: TorchPredictor, name: str) -> HiddenLayer:
    """Activations of a named layer as signals, one row of floats per row of X.

    Use it as ``Locus(g, signals=["all", hidden_layer(g, "encoder")])``. The module is run as
    `TorchPredictor` runs it, and what its layer returned is flattened; the hook that listens is
    removed after each call. Of an ensemble it is the first module's layer.

    Parameters
    ----------
    predictor
        The `TorchPredictor`.
    name
        The layer, by its name in ``module.named_modules()``.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from locuscore.torch import TorchPredictor, hidden_layer
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> hidden_layer(TorchPredictor(net), "1")(np.zeros((5, 2))).shape
    (5, 8)
    """
    if not isinstance(predictor, TorchPredictor):
        raise TypeError(f"hidden_layer needs a TorchPredictor; got {type(predictor).__name__}.")
    names = [known for known, _ in predictor.modules[0].named_modules() if known]
    if name not in names:
        shown = ", ".join(names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        raise ValueError(
            f"the module {type(predictor.modules[0]).__name__} has no layer {name!r}; its layers "
            f"are: {shown or 'none'}{more}."
        )
    return HiddenLayer(predictor, name)
