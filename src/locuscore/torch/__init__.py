"""Modules of torch as predictors, and their layers as signals.

`TorchPredictor` makes a predictor of an `nn.Module`, and `hidden_layer` gives the activations of
one of its layers to the loss model: ``Locus(g, signals=["all", hidden_layer(g, "encoder")])``.
"""

from locuscore._shared.optional import require

require("torch", extra="torch")

from locuscore.torch._layers import HiddenLayer, hidden_layer  # noqa: E402 - after the check
from locuscore.torch._predictor import TorchPredictor  # noqa: E402 - after the check

__all__ = ["HiddenLayer", "TorchPredictor", "hidden_layer"]
