"""The networks behind Flow: small ones side by side, trained together by maximum likelihood."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from zuko.transforms import MonotonicRQSTransform

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.progress import tracked
from locuscore.engines._mixture_network import LOG_SCALES, SMALLEST_SCALE, Trained

if TYPE_CHECKING:
    from locuscore.engines._flow import Flow

BOUND = 5.0  # the spline bends between these normal deviations
SMALLEST_SLOPE = 1e-2  # of the spline, and one over the largest
BLUR = 5e-2  # of losses in training, in their deviations: an atom becomes a narrow peak
MOST_VALUES, MOST_WEIGHTS = 2**20, 2**26  # of one row, and of all networks


def train(how: "Flow", S: FloatArray, t: FloatArray, held_out: IntArray, seed: int) -> Trained:
    """Fit all members at once, each on its own rows; keep each one's best epoch.

    `held_out` is (members, rows): what the member of that position is stopped by. All randomness
    comes from a separate generator, so torch's global one is not touched.
    """
    random = torch.Generator().manual_seed(seed)
    networks = [part.to(how.device) for part in _initial(S, t, how, random)]
    optimiser = torch.optim.AdamW(
        [part.requires_grad_() for part in networks],
        lr=how.learning_rate,
        weight_decay=how.weight_decay,
    )
    x, y = (torch.as_tensor(part, dtype=torch.float32, device=how.device) for part in (S, t))
    out = torch.as_tensor(held_out)
    rows = torch.as_tensor(_rest(held_out, len(t)))
    best = [part.detach().clone() for part in networks]
    least, best_epoch = torch.full((len(out),), math.inf), torch.zeros(len(out), dtype=torch.long)
    history = list[float]()
    # Equal losses leave nothing to learn, and training would only fit noise.
    n_epochs = how.max_epochs if np.ptp(t) > 0 else 0
    for epoch in tracked(range(n_epochs), "Training Flow"):
        order = torch.rand(rows.shape, generator=random).argsort(dim=1)
        for batch in torch.split(rows.gather(1, order), how.batch_size, dim=1):
            blur = BLUR * torch.randn(batch.shape, generator=random).to(how.device)
            # Members share no weight, so the sum trains each one as if alone.
            loss = -log_density(networks, x[batch], y[batch] + blur).mean(dim=1).sum()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            # One enormous loss must not throw the weights far off.
            torch.nn.utils.clip_grad_norm_(networks, 5.0 * len(out) ** 0.5)
            optimiser.step()
        with torch.no_grad():
            value = -log_density(networks, x[out], y[out]).mean(dim=1).cpu()
        if not bool(torch.isfinite(value).all()):
            raise ValueError(
                f"a held-out loss of Flow is not finite after epoch {epoch + 1}; try a smaller "
                f"learning_rate than {how.learning_rate:g}, or look for extreme values among the "
                "signals."
            )
        history.append(float(value.mean()))
        better = value <= least
        least, best_epoch[better] = torch.minimum(least, value), epoch
        for kept, part in zip(best, networks, strict=True):
            kept[better] = part.detach()[better]
        if epoch - int(best_epoch.max()) >= how.patience:
            break
    weights = [part.cpu().double().numpy() for part in best]
    return Trained(weights, int(best_epoch.max()), history)


def _rest(held_out: IntArray, n: int) -> IntArray:
    """The rows that each member is fitted on; a single row plays both parts."""
    rest = [np.setdiff1d(np.arange(n), part) for part in held_out]
    return np.array([part if len(part) else out for part, out in zip(rest, held_out, strict=True)])


def _initial(
    S: FloatArray, t: FloatArray, how: "Flow", random: torch.Generator
) -> list[torch.Tensor]:
    """Random weights of two hidden layers and an output, which starts near the normal law."""

    def uniform(n_in: int, n_out: int) -> torch.Tensor:
        shape = (how.n_draws, n_in, n_out)
        return (2 * torch.rand(shape, generator=random) - 1) / n_in**0.5

    n_signals, n_hidden, n_values = S.shape[1], how.n_hidden, 3 * how.n_bins + 1
    # If all losses are equal, every row has the same distribution.
    out = 0.1 * uniform(n_hidden, n_values) * float(np.ptp(t) > 0)
    return [
        uniform(n_signals, n_hidden),
        uniform(n_signals, n_hidden)[:, :1],
        uniform(n_hidden, n_hidden),
        uniform(n_hidden, n_hidden)[:, :1],
        out,
        torch.zeros((how.n_draws, 1, n_values)),
    ]


def log_density(networks: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Log density of y at x, (members, rows), under each member's own rows x (members, rows, d)."""
    first, first_bias, second, second_bias, out, out_bias = networks
    hidden = torch.relu(x @ first + first_bias)
    values = torch.relu(hidden @ second + second_bias) @ out + out_bias
    n_bins = values.shape[-1] // 3
    sizes = [1, 1, n_bins, n_bins, n_bins - 1]
    shift, log_scale, widths, heights, slopes = torch.split(values, sizes, dim=-1)
    scale = SMALLEST_SCALE + torch.exp(log_scale[..., 0].clamp(*LOG_SCALES))
    spline = MonotonicRQSTransform(widths, heights, slopes, bound=BOUND, slope=SMALLEST_SLOPE)
    normal, log_slope = spline.call_and_ladj((y - shift[..., 0]) / scale)
    return log_slope - torch.log(scale) - 0.5 * normal**2 - 0.5 * math.log(2 * math.pi)


def splines(weights: list[FloatArray], S: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Knots, values and slopes of each member's spline, (rows, members, bins + 1), in numpy."""
    check_sizes(weights, S.shape[1])
    first, first_bias, second, second_bias, out, out_bias = weights
    hidden = np.maximum(S @ first + first_bias, 0.0)
    raw = np.maximum(hidden @ second + second_bias, 0.0) @ out + out_bias
    raw = np.ascontiguousarray(np.moveaxis(raw, 0, 1))
    n_bins = raw.shape[2] // 3
    shift, log_scale, widths, heights, slopes = np.split(
        raw, np.cumsum([1, 1, n_bins, n_bins]), axis=2
    )
    scale = SMALLEST_SCALE + np.exp(np.clip(log_scale, *LOG_SCALES))
    ends = np.ones_like(shift)
    inner = np.exp(_bounded(slopes, -math.log(SMALLEST_SLOPE)))
    slope = np.concatenate([ends, inner, ends], axis=2)
    return shift + scale * _knots(widths), _knots(heights), slope / scale


def _bounded(values: FloatArray, limit: float) -> FloatArray:
    """Squash numbers into (-limit, limit)."""
    return values / (1.0 + np.abs(values / limit))


def _knots(values: FloatArray) -> FloatArray:
    """Where the pieces of the spline begin and end, from -BOUND to BOUND."""
    share = np.exp(_bounded(values, -0.5 * math.log(SMALLEST_SLOPE)))
    ends = np.cumsum(share, axis=2)
    ends /= ends[:, :, -1:]
    return BOUND * (2.0 * np.concatenate([np.zeros_like(ends[:, :, :1]), ends], axis=2) - 1.0)


def check_sizes(weights: list[FloatArray], n_signals: int) -> None:
    """Raise if the layers do not fit together, or if a single row would fill the memory."""
    shapes = [part.shape for part in weights]
    if len(shapes) != 6 or any(len(shape) != 3 for shape in shapes):
        raise ValueError("a flow has three layers of weights and biases, (members, in, out) each.")
    n_draws, (n_hidden, n_values) = shapes[0][0], shapes[4][1:]
    widths = [(n_signals, n_hidden), (n_hidden, n_hidden), (n_hidden, n_values)]
    fitting = [shape for a, b in widths for shape in ((n_draws, a, b), (n_draws, 1, b))]
    if shapes != fitting or n_values < 7 or n_values % 3 != 1 or n_draws < 1:
        raise ValueError(f"the layers of a flow do not fit together: {shapes}.")
    n_weights = sum(part.size for part in weights)
    if n_draws * max(n_values, n_hidden) > MOST_VALUES or n_weights > MOST_WEIGHTS:
        raise ValueError(
            f"{n_draws} flows of {n_hidden} hidden units are more than fit into memory."
        )
