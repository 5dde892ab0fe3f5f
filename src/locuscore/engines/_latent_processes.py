"""The Gaussian processes behind VariationalGP: two latent functions with shared machinery."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gpytorch
import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept
from locuscore._shared.progress import tracked

if TYPE_CHECKING:
    from locuscore.engines._variational_gp import VariationalGP

SMALLEST_SCALE = 1e-2  # of the noise, in standard deviations of the loss on D1
LOG_SCALES = (-7.0, 4.0)  # of the noise: exp neither overflows nor vanishes
JITTER = 1e-4  # added to the kernel of a point with itself
MOST_POINTS, MOST_NUMBERS = 2**12, 2**26  # of inducing points, and of all arrays


@dataclass(frozen=True)
class Processes:
    """Location and log noise as two sparse posteriors, in arrays.

    With ``k(x)`` the kernel between x and the `points`, and ``a = whiten k(x)``, the posterior of
    latent j at x is normal with mean ``constant + a' mean`` and variance ``height + jitter - a'a +
    a' root root' a``. The first axis of every array is the latent.
    """

    ARCHIVE = Kept(
        "Processes",
        numbers=("points", "length", "height", "constant", "whiten", "mean", "root"),
    )

    points: FloatArray  # (2, m, d)
    length: FloatArray  # (2, d)
    height: FloatArray  # (2,)
    constant: FloatArray  # (2,)
    whiten: FloatArray  # (2, m, m)
    mean: FloatArray  # (2, m)
    root: FloatArray  # (2, m, m)

    def moments(self, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of both latents, (2, rows) each."""
        self._check_sizes(S.shape[1])
        means, deviations = np.empty((2, len(S))), np.empty((2, len(S)))
        for j in range(2):
            projected = self._kernel(S, j) @ self.whiten[j].T
            means[j] = self.constant[j] + projected @ self.mean[j]
            known = np.einsum("nm,nm->n", projected, projected)
            spread = projected @ self.root[j]
            # In this order: where nothing was learned, all rows have the very same variance.
            variance = self.height[j] + JITTER + (np.einsum("nm,nm->n", spread, spread) - known)
            deviations[j] = np.sqrt(np.maximum(variance, 0.0))
        return means, deviations

    def _kernel(self, S: FloatArray, j: int) -> FloatArray:
        """Matern 5/2 between rows and points, (rows, points)."""
        x, points = S / self.length[j], self.points[j] / self.length[j]
        square = (x**2).sum(axis=1)[:, None] - 2.0 * (x @ points.T) + (points**2).sum(axis=1)
        distance = np.sqrt(5.0 * np.maximum(square, 0.0))
        return self.height[j] * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)

    def _check_sizes(self, n_signals: int) -> None:
        """Raise if the arrays do not fit together, or are more than any fit makes."""
        if self.points.ndim != 3 or self.points.shape[::2] != (2, n_signals):
            raise ValueError(
                f"the inducing points of VariationalGP have shape {self.points.shape}, not "
                f"(2, points, {n_signals})."
            )
        m = self.points.shape[1]
        shapes = {
            "length": (2, n_signals),
            "height": (2,),
            "constant": (2,),
            "whiten": (2, m, m),
            "mean": (2, m),
            "root": (2, m, m),
        }
        wrong = [name for name, shape in shapes.items() if getattr(self, name).shape != shape]
        if wrong or m > MOST_POINTS:
            raise ValueError(f"the arrays of VariationalGP do not fit together: {wrong or m}.")
        if not (self.length > 0).all() or not (self.height > 0).all():
            raise ValueError("the kernels of VariationalGP have a length or height of 0 or less.")


class _Latents(gpytorch.models.ApproximateGP):
    """Two independent sparse processes: the location of the loss and its log noise."""

    def __init__(self, points: torch.Tensor, length: float) -> None:
        both = torch.Size([2])
        posterior = gpytorch.variational.CholeskyVariationalDistribution(
            points.shape[1], batch_shape=both, mean_init_std=0.0
        )
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, points, posterior, learn_inducing_locations=True, jitter_val=JITTER
            )
        )
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=both)
        shape = gpytorch.kernels.MaternKernel(
            nu=2.5, ard_num_dims=points.shape[2], batch_shape=both
        )
        shape.lengthscale = length
        self.covar_module = gpytorch.kernels.ScaleKernel(shape, batch_shape=both)
        self.covar_module.outputscale = torch.tensor([0.5, 0.2])
        self.mean_module.constant.data = torch.tensor([0.0, -0.3])

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def learn(how: "VariationalGP", S: FloatArray, t: FloatArray, seed: int) -> Processes:
    """Maximise the evidence bound in `n_steps` steps of ever smaller size, and keep the arrays."""
    rng = np.random.default_rng(seed)
    points = S[rng.permutation(len(S))[: how.n_points]]
    device = torch.device(how.device)
    x, y = (torch.as_tensor(part, device=device) for part in (S, t))
    # gpytorch draws numbers that it then multiplies by zero; the global generator is put back.
    with torch.random.fork_rng(devices=[]):
        start = torch.as_tensor(points).expand(2, -1, -1).clone()
        latents = _Latents(start, math.sqrt(S.shape[1])).double().to(device).train()
        latents(x[:1])  # the first call sets the variational distribution
    optimiser = torch.optim.Adam(latents.parameters(), lr=how.learning_rate)
    # Equal losses leave nothing to learn, and training would only fit noise.
    n_steps = how.n_steps if np.ptp(t) > 0 else 0
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(n_steps, 1))
    for _ in tracked(range(n_steps), "Training VariationalGP"):
        batch = torch.as_tensor(rng.permutation(len(t))[: how.batch_size])
        loss = _negative_bound(latents, x[batch], y[batch], len(t))
        _check_finite(how, loss.detach())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(latents.parameters(), 10.0)
        optimiser.step()
        slower.step()
    _check_finite(how, *(part.detach() for part in latents.parameters()))
    return _arrays(latents.cpu())


def _check_finite(how: "VariationalGP", *values: torch.Tensor) -> None:
    if not all(bool(torch.isfinite(part).all()) for part in values):
        raise ValueError(
            "the training of VariationalGP left the finite numbers; try a smaller learning_rate "
            f"than {how.learning_rate:g}, or look for extreme values among the signals."
        )


def _negative_bound(latents: _Latents, x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    """Minus the evidence lower bound per row, of which D1 has n; NaN where it has no value."""
    try:
        both = latents(x)  # first: it clears what the strategy remembers of the last step
    except (NanError, NotPSDError):
        return torch.tensor(math.nan)
    prior = latents.variational_strategy.kl_divergence().sum() / n
    return prior - expected_log_density(both.mean, both.variance, y).mean()


def expected_log_density(
    mean: torch.Tensor, variance: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    """``E log N(y; f, e^{2 s})`` for normal f and s, of which mean and variance are (2, rows)."""
    log_scale = mean[1].clamp(*LOG_SCALES)
    # The variance of the log noise is bounded too: its exponential must not overflow.
    precision = torch.exp(-2.0 * log_scale + 2.0 * variance[1].clamp(max=4.0))
    square = (y - mean[0]) ** 2 + variance[0]
    return -0.5 * square * precision - log_scale - 0.5 * math.log(2 * math.pi)


def _arrays(latents: _Latents) -> Processes:
    """What prediction needs of the fitted processes."""
    strategy, kernel = latents.variational_strategy, latents.covar_module
    with torch.no_grad():
        points = strategy.inducing_points
        gram = kernel(points).to_dense() + JITTER * torch.eye(points.shape[1], dtype=points.dtype)
        factor = torch.linalg.cholesky(gram)
        unit = torch.eye(points.shape[1], dtype=points.dtype).expand_as(factor)
        posterior = strategy._variational_distribution
        parts = (
            points,
            kernel.base_kernel.lengthscale[:, 0],
            kernel.outputscale,
            latents.mean_module.constant,
            torch.linalg.solve_triangular(factor, unit, upper=False),
            posterior.variational_mean,
            posterior.chol_variational_covar.tril(),
        )
        return Processes(*(part.numpy().copy() for part in parts))
