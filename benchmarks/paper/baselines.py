"""Scores that learn from no losses: outliers, label variance, spread of g's trees."""

from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

from benchmarks.paper.protocol import Scores, Task, stopwatch

N_UNITS, BATCH, EPOCHS, PATIENCE, HELD_OUT = 64, 128, 200, 20, 0.2


def isolation_forest(task: Task, sign: float = 1.0) -> Scores:
    """Outlier score of x; with sign = -1 the most unusual rows count as the safest."""
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        forest = IsolationForest(random_state=task.seed).fit(task.train.x)
    with stopwatch(times, "score"):
        parts = (task.validation, task.test)
        values = tuple(-sign * forest.score_samples(part.x) for part in parts)
    return Scores(values, fit_seconds=times["fit"], score_seconds=times["score"])


def spread(task: Task) -> Scores:
    """Standard deviation of g's trees: no model and no labels."""
    values = task.validation.own[:, 1], task.test.own[:, 1]
    return Scores(values, fit_seconds=0.0, score_seconds=0.0)


def variance_network(task: Task) -> Scores:
    """Label variance from two networks for E[Y^2] and E[Y], absolute error (Appendix C).

    A difference below zero counts as zero; how often that happens is recorded.
    """
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        square = fit_network(task.train.x, task.train.y**2, task.seed)
        mean = fit_network(task.train.x, task.train.y, task.seed + 1)
    with stopwatch(times, "score"):
        raw = [square(part.x) - mean(part.x) ** 2 for part in (task.validation, task.test)]
    values = tuple(np.maximum(value, 0.0) for value in raw)
    extra = {"negative_variances": int(np.sum(raw[1] < 0))}
    return Scores(values, fit_seconds=times["fit"], score_seconds=times["score"], extra=extra)


def fit_network(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A network with two hidden layers, absolute error, stopped by held-out rows."""
    import torch  # noqa: PLC0415 - optional
    from torch import nn  # noqa: PLC0415 - optional

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(x.shape[1], N_UNITS),
        nn.ReLU(),
        nn.Linear(N_UNITS, N_UNITS),
        nn.ReLU(),
        nn.Linear(N_UNITS, 1),
    )
    inputs = torch.as_tensor(x, dtype=torch.float32)
    targets = torch.as_tensor(y, dtype=torch.float32)
    order = np.random.default_rng(seed).permutation(len(y))
    held, kept = np.split(order, [int(HELD_OUT * len(y))])
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    error = nn.L1Loss()
    best, state, waited = np.inf, net.state_dict(), 0
    for _ in range(EPOCHS):
        for rows in torch.as_tensor(kept)[torch.randperm(len(kept))].split(BATCH):
            optimiser.zero_grad()
            error(net(inputs[rows])[:, 0], targets[rows]).backward()
            optimiser.step()
        with torch.no_grad():
            value = float(error(net(inputs[held])[:, 0], targets[held]))
        waited += 1
        if value < best:
            best, waited = value, 0
            state = {name: part.clone() for name, part in net.state_dict().items()}
        if waited >= PATIENCE:
            break
    net.load_state_dict(state)

    def predict(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.as_tensor(rows, dtype=torch.float32))[:, 0].numpy().astype(np.float64)

    return predict
