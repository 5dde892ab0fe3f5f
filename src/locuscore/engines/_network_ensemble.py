"""The networks behind BayesianMDN: trained side by side, each from its own start."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from locuscore._protocols import FloatArray
from locuscore._shared.progress import tracked
from locuscore.engines._mixture_network import (
    MOST_VALUES,
    MOST_WEIGHTS,
    Trained,
    check_progress,
    components,
    hidden,
    initial,
    log_density,
)

if TYPE_CHECKING:
    from locuscore.engines._bayesian_mdn import BayesianMDN

HELD_OUT_SHARE = 0.2  # of D1, another one for each network
LARGEST_GRADIENT = 5.0  # one enormous loss must not throw the weights far off


def train_members(how: "BayesianMDN", S: FloatArray, t: FloatArray, seed: int) -> Trained:
    """Train all networks at once; each keeps its weights of the epoch best for its own rows.

    Every network has a random start, and leaves out a random fifth of the rows to stop by. Weights
    are stacked along the first axis, so one matrix product serves all networks; their gradients
    have nothing to do with one another.
    """
    random = torch.Generator().manual_seed(seed)
    starts = [initial(S, t, how, how.n_hidden, random) for _ in range(how.n_draws)]
    first, first_bias, out, out_bias = (torch.stack(parts) for parts in zip(*starts, strict=True))
    network = [first, first_bias[:, None], out, out_bias[:, None]]
    network = [part.to(how.device).requires_grad_() for part in network]
    optimiser = torch.optim.AdamW(network, lr=how.learning_rate, weight_decay=how.weight_decay)
    x, y = (torch.as_tensor(part, dtype=torch.float32, device=how.device) for part in (S, t))
    rows = torch.stack([torch.randperm(len(t), generator=random) for _ in range(how.n_draws)])
    n_out = max(1, round(HELD_OUT_SHARE * len(t)))
    held_out, rest = rows[:, :n_out], rows[:, n_out:]
    rest = rest if rest.shape[1] else held_out  # a single row plays both parts
    best = [part.detach().clone() for part in network]
    least = torch.full((how.n_draws,), math.inf, device=how.device)
    best_epoch, history = 0, list[float]()
    # Equal losses leave nothing to learn, and training would only fit noise.
    n_epochs = how.max_epochs if np.ptp(t) > 0 else 0
    everything = torch.ones((), device=how.device)
    for epoch in tracked(range(n_epochs), "Training BayesianMDN"):
        order = torch.stack([one[torch.randperm(len(one), generator=random)] for one in rest])
        for batch in torch.split(order, how.batch_size, dim=1):
            kept = torch.rand((*batch.shape, how.n_hidden), generator=random) >= how.dropout
            mask = (kept / (1.0 - how.dropout)).to(how.device)
            loss = -log_density(network, x[batch], y[batch], mask).mean(dim=1).sum()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            _clip_each(network)
            optimiser.step()
        with torch.no_grad():
            values = -log_density(network, x[held_out], y[held_out], everything).mean(dim=1)
        history.append(float(values.mean()))
        check_progress(how, history[-1], epoch)
        better = values < least
        if better.any():
            least, best_epoch = torch.where(better, values, least), epoch
            for kept, part in zip(best, network, strict=True):
                kept[better] = part.detach()[better]
        elif epoch - best_epoch >= how.patience:
            break
    return Trained([part.cpu().double().numpy() for part in best], best_epoch, history)


def _clip_each(network: list[torch.Tensor]) -> None:
    """Shorten the gradient of each network on its own."""
    gradients = [part.grad for part in network if part.grad is not None]
    size = torch.stack([part.flatten(1).square().sum(dim=1) for part in gradients]).sum(dim=0)
    factor = (LARGEST_GRADIENT / size.sqrt()).clamp(max=1.0)[:, None, None]
    for part in gradients:
        part.mul_(factor)


def mixtures(weights: list[FloatArray], S: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weight, location and scale of the components, (rows, networks, components), in numpy."""
    check_members(weights)
    values = (hidden(weights, S) @ weights[2] + weights[3]).transpose(1, 0, 2)
    share, location, scale = (np.ascontiguousarray(part) for part in np.split(values, 3, axis=2))
    return components(share, location, scale)


def check_members(weights: list[FloatArray]) -> None:
    """Raise if the parts do not fit together, or if a single row would fill the memory."""
    if len(weights) != 4 or any(np.ndim(part) != 3 for part in weights):
        raise ValueError("a BayesianMDN holds something that is no stack of networks.")
    first, first_bias, out, out_bias = (part.shape for part in weights)
    n, n_hidden, n_values = out
    fits = first[::2] == (n, n_hidden) and first_bias == (n, 1, n_hidden)
    if not fits or out_bias != (n, 1, n_values) or n_values % 3 or not n * n_values:
        raise ValueError("the layers of a BayesianMDN do not fit together.")
    if n * max(n_hidden, n_values) > MOST_VALUES or n * n_hidden * n_values > MOST_WEIGHTS:
        raise ValueError(
            f"{n} networks of {n_hidden} hidden units and {n_values // 3} components are more than "
            "fit into memory."
        )
