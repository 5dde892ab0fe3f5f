"""The network behind MDN: one hidden layer with dropout, trained by maximum likelihood."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.kept import Kept
from locuscore._shared.progress import tracked

if TYPE_CHECKING:
    from locuscore.engines._bayesian_mdn import BayesianMDN
    from locuscore.engines._mdn import MDN

SMALLEST_SCALE = 1e-2  # of a component, in standard deviations of the loss on D1
# Logits and log scales are clipped, so that exp neither overflows nor makes a component vanish.
LARGEST_LOGIT = 15.0
LOG_SCALES = (-7.0, 4.0)
HELD_OUT_PASSES = 20  # masks averaged for the held-out likelihood
MOST_VALUES, MOST_WEIGHTS = 2**20, 2**26  # of one row, and of all masked networks


@dataclass(frozen=True)
class Trained:
    """The weights of the best epoch, and the held-out loss after each."""

    ARCHIVE = Kept("Trained", fields=("weights", "history"), single=("best_epoch",))

    weights: list[FloatArray]
    best_epoch: int
    history: list[float]

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the network that an archive holds, if its weights are numbers."""
        weights = parts["weights"]
        if not isinstance(weights, list) or not all(
            isinstance(part, np.ndarray) and part.dtype.kind in "iuf" and np.isfinite(part).all()
            for part in weights
        ):
            raise ValueError("the weights of its network are no arrays of finite numbers")
        return cls(**parts)


def train(
    how: "MDN", S: FloatArray, t: FloatArray, masks: FloatArray, held_out: IntArray, seed: int
) -> Trained:
    """Fit on the rows that are not held out; keep the weights with the best held-out likelihood.

    The held-out likelihood is that of the average over the first masks. All randomness comes from
    a separate generator, so torch's global one is not touched.
    """
    random = torch.Generator().manual_seed(seed)
    network = [part.to(how.device) for part in initial(S, t, how, masks.shape[1], random)]
    optimiser = torch.optim.AdamW(
        [part.requires_grad_() for part in network],
        lr=how.learning_rate,
        weight_decay=how.weight_decay,
        # One call for all weights: a third of the time of a step otherwise.
        fused=torch.device(how.device).type in ("cpu", "cuda") or None,
    )
    x, y = (torch.as_tensor(part, dtype=torch.float32, device=how.device) for part in (S, t))
    passes = torch.as_tensor(masks[:HELD_OUT_PASSES, None], dtype=torch.float32, device=how.device)
    rest = np.setdiff1d(np.arange(len(t)), held_out)
    rows = torch.as_tensor(rest if len(rest) else held_out)  # a single row plays both parts
    best, best_epoch, history = [part.detach().clone() for part in network], 0, list[float]()
    # Equal losses leave nothing to learn, and training would only fit noise.
    n_epochs = how.max_epochs if np.ptp(t) > 0 else 0
    for epoch in tracked(range(n_epochs), "Training MDN"):
        for batch in torch.split(rows[torch.randperm(len(rows), generator=random)], how.batch_size):
            kept = torch.rand((len(batch), masks.shape[1]), generator=random) >= how.dropout
            mask = (kept / (1.0 - how.dropout)).to(how.device)
            loss = -log_density(network, x[batch], y[batch], mask).mean()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            # One enormous loss must not throw the weights far off.
            torch.nn.utils.clip_grad_norm_(network, 5.0)
            optimiser.step()
        with torch.no_grad():
            # The log of the mean density over the masks, as in the average of the draws.
            density = log_density(network, x[held_out], y[held_out], passes)
            value = float(-(torch.logsumexp(density, 0) - math.log(len(passes))).mean())
        check_progress(how, value, epoch)
        history.append(value)
        if value <= min(history):
            best, best_epoch = [part.detach().clone() for part in network], epoch
        elif epoch - best_epoch >= how.patience:
            break
    return Trained([part.cpu().double().numpy() for part in best], best_epoch, history)


def check_progress(how: "MDN | BayesianMDN", value: float, epoch: int) -> None:
    """Raise if the training has diverged."""
    if not math.isfinite(value):
        raise ValueError(
            f"the held-out loss of {type(how).__name__} is {value} after epoch {epoch + 1}; try a "
            f"smaller learning_rate than {how.learning_rate:g}, transform='log', or look for "
            "extreme values among the signals."
        )


def initial(
    S: FloatArray, t: FloatArray, how: "MDN | BayesianMDN", n_hidden: int, random: torch.Generator
) -> list[torch.Tensor]:
    """Random weights; the components start at quantiles of the losses."""

    def uniform(n_in: int, n_out: int) -> torch.Tensor:
        return (2 * torch.rand((n_in, n_out), generator=random) - 1) / n_in**0.5

    k = how.n_components
    # Components that start apart do not have to learn to separate.
    middle = np.quantile(t, (np.arange(k) + 0.5) / k)
    bias = torch.as_tensor(np.concatenate([np.zeros(k), middle, np.full(k, -0.5)]))
    first, first_bias = uniform(S.shape[1], n_hidden), uniform(S.shape[1], n_hidden)[0]
    # If all losses are equal, every row has the same distribution.
    out = uniform(n_hidden, 3 * k) * float(np.ptp(t) > 0)
    return [first, first_bias, out, bias.float()]


def log_density(
    network: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Log density of y under the mixture at x, for each mask on the hidden units.

    Networks may be stacked: all arrays then have one more axis in front.
    """
    weight, bias, out, out_bias = network
    values = (torch.relu(x @ weight + bias) * mask) @ out + out_bias
    logit, location, log_scale = values.chunk(3, dim=-1)
    scale = SMALLEST_SCALE + torch.exp(log_scale.clamp(*LOG_SCALES))
    share = torch.log_softmax(logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT), dim=-1)
    standard = (y[..., None] - location) / scale
    parts = -0.5 * standard**2 - torch.log(scale) - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(share + parts, dim=-1)


def hidden(weights: list[FloatArray], S: FloatArray) -> FloatArray:
    """Hidden layer (n, units); of stacked networks, (networks, n, units)."""
    layer: FloatArray = np.maximum(S @ weights[0] + weights[1], 0.0)
    return layer


def mixture(
    weights: list[FloatArray], S: FloatArray, masks: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weight, location and scale of the components, (rows, masks, components), in numpy."""
    _, _, out, out_bias = weights
    _check_sizes(weights, masks)
    layer = hidden(weights, S)
    # A mask on the hidden units is a mask on the rows of the next matrix, so one matrix product
    # serves all masks.
    masked = masks.T[:, :, None] * out[:, None, :]
    shape = (len(S), len(masks), out.shape[1] // 3)
    share, location, scale = (
        (layer @ part.reshape(len(out), -1)).reshape(shape) + bias
        for part, bias in zip(np.split(masked, 3, axis=2), np.split(out_bias, 3), strict=True)
    )
    return components(share, location, scale)


def components(
    share: FloatArray, location: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, locations and scales (n, S, k) of what the last layer gives, changed in place."""
    np.exp(np.clip(share, -LARGEST_LOGIT, LARGEST_LOGIT, out=share), out=share)
    share /= (share @ np.ones(share.shape[2]))[:, :, None]
    np.exp(np.clip(scale, *LOG_SCALES, out=scale), out=scale)
    scale += SMALLEST_SCALE
    return share, location, scale


def _check_sizes(weights: list[FloatArray], masks: FloatArray) -> None:
    """Raise if the parts do not fit together, or if a single row would fill the memory."""
    first, first_bias, out, out_bias = weights
    n_hidden, n_values = out.shape
    if (first.shape[1:], first_bias.shape, masks.shape[1:]) != ((n_hidden,),) * 3:
        raise ValueError("the layers of a network differ in their hidden units.")
    if out_bias.shape != (n_values,):
        raise ValueError("the last layer of a network has another number of biases.")
    if len(masks) * n_values > MOST_VALUES or masks.size * n_values > MOST_WEIGHTS:
        raise ValueError(
            f"{len(masks)} draws of {n_values // 3} components from {n_hidden} hidden units are "
            "more than fit into memory."
        )
