"""BART beside stochtree's own sampler, MDN beside a bare loop of torch, and both beside before."""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from stochtree import BARTModel

from benchmarks.choices.effort import LONG, SLOW, losses
from benchmarks.speed.figures import Figure, in_turns, ratios
from benchmarks.speed.subjects import diamonds, linear
from locuscore.engines import BART, MDN
from locuscore.engines._standard_signals import centre_and_unit, standardise

TITLE = "BART and MDN"
ABOUT = (
    "The engine alone is fitted to the losses of 1,000 rows of diamonds, or of the table that is "
    "named. stochtree's sampler is called as by its own users (100 cutpoints), as many trees, "
    "sweeps and chains; the loop of torch has the same layers and takes as many steps, without "
    "held-out rows and without looking "
    'after its gradients. "Before" are the former settings; that the pinball loss is the same '
    "is under [choices](../choices/RESULTS.md)."
)
ROUNDS, N_ROWS = 3, 1_000
OTHERS = ("bike", "electric", "homes", "kin40k")


def sweeps(S: np.ndarray, z: np.ndarray) -> None:
    """What `BART` asks of the sampler, asked directly."""
    engine = BART()
    trees = {"num_trees": engine.n_trees}
    BARTModel().sample(
        S,
        z,
        num_gfr=10,
        num_burnin=engine.n_burn,
        num_mcmc=engine.n_draws // engine.n_chains,
        general_params={
            "num_chains": engine.n_chains,
            "num_threads": 1,
            "random_seed": 0,
            "sample_sigma2_global": False,
        },
        mean_forest_params=trees,
        variance_forest_params=trees,
    )


def steps(S: np.ndarray, z: np.ndarray, n_epochs: int) -> None:
    """As many steps as `MDN` takes, as few lines of torch as they need."""
    how = MDN()
    n = round(0.8 * len(z))
    x = torch.as_tensor(S[:n], dtype=torch.float32)
    y = torch.as_tensor((z[:n] - z.mean()) / z.std(), dtype=torch.float32)
    network = torch.nn.Sequential(
        torch.nn.Linear(S.shape[1], how.n_hidden),
        torch.nn.ReLU(),
        torch.nn.Dropout(how.dropout),
        torch.nn.Linear(how.n_hidden, 3 * how.n_components),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=how.learning_rate)
    for _ in range(n_epochs):
        for batch in torch.split(torch.randperm(n), how.batch_size):
            logit, location, log_scale = network(x[batch]).chunk(3, dim=-1)
            standard = (y[batch, None] - location) * torch.exp(-log_scale)
            parts = -0.5 * standard**2 - log_scale - 0.5 * math.log(2 * math.pi)
            loss = -torch.logsumexp(torch.log_softmax(logit, -1) + parts, -1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def figures() -> Iterator[Figure]:
    torch.set_num_threads(1)
    X, y = (part[:N_ROWS] for part in diamonds().labelled)
    z = np.abs(y - linear().predict(X))
    S = standardise(X, *centre_and_unit(X), "MDN")
    n_epochs = len(MDN(random_state=0).fit(X, z).network_.history)
    calls = {
        "BART": lambda: BART(random_state=0).fit(X, z),
        "BART before": lambda: BART(**LONG, random_state=0).fit(X, z),
        "sampler": lambda: sweeps(X, z),
        "MDN": lambda: MDN(random_state=0).fit(X, z),
        "MDN before": lambda: MDN(**SLOW, random_state=0).fit(X, z),
        "loop": lambda: steps(S, z, n_epochs),
    }
    with warnings.catch_warnings(action="ignore"):
        times = in_turns(calls, ROUNDS)
    yield ratios("`BART.fit`", times["BART"], times["BART before"], "before", most=0.5)
    yield ratios("`BART.fit`", times["BART"], times["sampler"], "stochtree's own sampler")
    yield ratios("`MDN.fit`", times["MDN"], times["MDN before"], "before", most=0.5)
    yield ratios("`MDN.fit`", times["MDN"], times["loop"], "bare torch, as many steps")
    for name in ("BART", "MDN"):
        yield Figure(f"`{name}.fit`", tuple(times[name]), unit="s")
    for table in OTHERS:
        yield from beside_before(table)


def beside_before(table: str) -> Iterator[Figure]:
    """Both engines beside their former settings, on 1,000 rows of another table."""
    S, z = losses(table, 0)
    calls = {
        "BART": lambda: BART(random_state=0).fit(S, z),
        "BART before": lambda: BART(**LONG, random_state=0).fit(S, z),
        "MDN": lambda: MDN(random_state=0).fit(S, z),
        "MDN before": lambda: MDN(**SLOW, random_state=0).fit(S, z),
    }
    with warnings.catch_warnings(action="ignore"):
        times = in_turns(calls, ROUNDS)
    for name in ("BART", "MDN"):
        what = f"`{name}.fit`, {table}"
        yield ratios(what, times[name], times[f"{name} before"], "before", most=0.5)
