"""Dropout with masks that are the same for every row, so that no row's answer depends on others.

Ordinary dropout draws a mask for each row anew, so the same row would get another answer in every
call and in every batch. Here one sample is one thinned network: a mask for each dropout layer,
drawn from a seed, the sample, the layer and the count of its calls, and used for all rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

KINDS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


def dropout_layers(module: nn.Module) -> dict[str, Any]:
    """The dropout layers of a module that drop anything, by name."""
    found = module.named_modules()
    return {name: part for name, part in found if isinstance(part, KINDS) and part.p > 0}


@contextmanager
def thinned(module: nn.Module, sample: int, n: int, seed: int) -> Iterator[None]:
    """Apply the masks of a sample to each dropout layer, for a batch of n rows."""
    layers = dropout_layers(module)
    calls = dict.fromkeys(layers, 0)

    def hook(name: str, place: int) -> Any:
        def masked(layer: Any, inputs: Any, output: Tensor) -> Tensor:
            if output.ndim < 2 or len(output) != n:
                raise ValueError(
                    f"the dropout layer {name!r} sees a tensor of shape {tuple(output.shape)} in a "
                    f"batch of {n} rows; fixed masks need one row of it per row of the batch, such "
                    "as with batch_first=True."
                )
            calls[name] += 1
            key = (seed, sample, place, calls[name])
            return output * _mask(output, layer, key)

        return masked

    handles = [
        layer.register_forward_hook(hook(name, place))
        for place, (name, layer) in enumerate(layers.items())
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if n and not any(calls.values()):
        raise ValueError(
            "no dropout layer of the module was run, so its samples are all alike; leave samples "
            "out, or make a module that calls its dropout layers in evaluation mode too."
        )


def _mask(output: Tensor, layer: Any, key: tuple[int, ...]) -> Tensor:
    """Zeros and ``1 / (1 - p)``: for each value of a row, or for whole channels of an image."""
    shape = output.shape[1:]
    if not isinstance(layer, nn.Dropout):
        shape = torch.Size((shape[0], *[1] * (len(shape) - 1)))
    # The generator of numpy draws alike on every device.
    kept = np.random.default_rng(key).random(tuple(shape)) >= layer.p
    scale = 0.0 if layer.p == 1 else 1 / (1 - layer.p)
    return torch.as_tensor(kept * scale, dtype=output.dtype, device=output.device)
