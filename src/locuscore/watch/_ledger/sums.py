"""Running sums per deployment, day and group, changed in the transaction that changes the rows.

A cell is (deployment, day, group, accepted, drawn). For each measure it has the sum over its rows
and the sum weighted by 1 / chance, over drawn rows whose chance is known. So a status reads days,
never rows, and a label that comes late costs no recount.

======================  ===========================================================
measure                 summed over
======================  ===========================================================
``rows``                decisions: 1
``probability``         decisions: the predicted probability, where there is one
``labelled``            rows with a label: 1
``loss``                rows with a label: the loss
``lag``                 rows with a label: seconds from decision to label
``bad``                 rows with a label: loss above tau
``miss <alpha>``        rows with a label: loss above the bound at alpha
======================  ===========================================================

One huge number would take the digits of all others in its sum, and they would not come back when
it is corrected. So of each number the multiples of 2^40 are summed apart, as ``loss * 2^40`` and so
on; these are whole, and their sums exact. `parts_of` tells which sums make up a measure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from locuscore._protocols import FloatArray
from locuscore.watch._ledger.columns import DAY, Columns
from locuscore.watch._ledger.deployments import Deployment
from locuscore.watch._ledger.tables import DAILY

CELL = ("deployment", "day", "group_name", "accepted", "drawn")
BITS = 40  # of a number that is summed as it is


def miss(alpha: float) -> str:
    """Return the name of the measure that counts losses above the bound at alpha."""
    return f"miss {float(alpha)!r}"


def parts_of(measure: str, names: Iterable[str]) -> dict[str, float]:
    """Those of some names whose sums make up a measure, with the factor of each."""
    prefix = f"{measure} * 2^"
    found = {name: 2.0 ** int(name[len(prefix) :]) for name in names if name.startswith(prefix)}
    return {measure: 1.0} | found


def decision_measures(rows: Columns) -> dict[str, FloatArray]:
    """What each decision adds."""
    return {
        "rows": np.ones(len(rows["time"])),
        "probability": np.nan_to_num(rows["probability"], nan=0.0),
    }


def label_measures(rows: Columns, deployment: Deployment) -> dict[str, FloatArray]:
    """What each label adds to the sums of its decision's day."""
    loss = rows["loss"]
    found = {
        "labelled": np.ones(len(loss)),
        "loss": loss,
        "lag": (rows["label_time"] - rows["time"]) / 1e6,
    }
    if deployment.tau is not None:
        found["bad"] = (loss > deployment.tau).astype(float)
    for k, alpha in enumerate(deployment.alphas):
        found[miss(alpha)] = (loss > rows["bounds"][:, k]).astype(float)
    return found


def add(
    connection: Connection, rows: Columns, measures: Mapping[str, FloatArray], sign: FloatArray
) -> None:
    """Add sign * measure of each row to its cell."""
    codes: dict[tuple[int, int, str, bool, bool], int] = {}
    groups = [name or "" for name in rows["group_name"]]
    keys = zip(
        rows["deployment"].tolist(),
        (rows["time"] // DAY).tolist(),
        groups,
        (~rows["flagged"]).tolist(),
        rows["drawn"].tolist(),
        strict=True,
    )
    cell = np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)
    known = rows["drawn"] & (rows["chance"] > 0)
    weight = sign * np.divide(1.0, rows["chance"], out=np.zeros(len(cell)), where=known)
    changes = [
        dict(zip(CELL, key, strict=True)) | {"measure": name, "total": total, "weighted": weighted}
        for measure, values in measures.items()
        for name, part in _parts(measure, np.stack([sign * values, weight * values]))
        for key, total, weighted in zip(
            codes, *(np.bincount(cell, one, len(codes)).tolist() for one in part), strict=True
        )
        if total or weighted
    ]
    _upsert(connection, changes)


def _parts(measure: str, values: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """What stays below 2^40, and the multiples of it; no bit is lost."""
    power = 0
    while power == 0 or values.any():
        low = np.fmod(values, 2.0**BITS)
        yield f"{measure} * 2^{power}" if power else measure, low
        values = (values - low) / 2.0**BITS
        power += BITS


def _upsert(connection: Connection, changes: Sequence[dict[str, object]]) -> None:
    if not changes:
        return
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(DAILY)
    sums = {name: DAILY.c[name] + statement.excluded[name] for name in ("total", "weighted")}
    connection.execute(
        statement.on_conflict_do_update(index_elements=[*CELL, "measure"], set_=sums), changes
    )
