"""What an archive keeps of the rows of `fit`: digests, and a few with the predictor's answers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from locuscore._archive.container import ArchiveError
from locuscore._archive.packed_rows import pack, unpack
from locuscore._archive.values import Reader, Writer
from locuscore._inputs.predictor import PredictionColumn
from locuscore._inputs.probe import PROBE_ROWS, Probe
from locuscore._inputs.schema import Schema
from locuscore._inputs.used_rows import RowSet, UsedRows
from locuscore._locus import Locus
from locuscore._shared.frames import n_rows

LEFT_OUT = "left out on demand (keep_rows=False)"
UNSTEADY = "not checkable: the predictor disagrees with itself"
NOT_THE_SAME = "not checkable: its rows cannot be kept as the predictor saw them"
REPLACED = "of another predictor than that of fit, which was allowed"


def encode_rows(locus: Locus, writer: Writer, keep: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes into the archive, and what its manifest says of it: numbers, no rows."""
    if not keep:
        return {}, {"digests": 0, "probe_rows": 0, "note": LEFT_OUT}
    state: dict[str, Any] = {}
    used, probe = locus.used_rows_, locus.probe_
    note = _no_probe(locus.predictor_)
    if used is not None:
        state["used_rows"] = writer.encode(used)
    if probe is not None:
        packed, note = _packed(probe, locus)
        if packed is not None:
            state["probe"] = writer.encode(packed)
    return state, {
        "digests": 0 if used is None else len(used),
        "probe_rows": n_rows(probe.rows) if "probe" in state and probe is not None else 0,
        "note": note,
    }


def _no_probe(predictor: Any) -> str:
    if predictor is None:
        return "nothing to check: there is no predictor"
    if isinstance(predictor, PredictionColumn):
        return "nothing to check: predictions are a column of the rows"
    return "none kept"


def _packed(probe: Probe, locus: Locus) -> tuple[dict[str, Any] | None, str]:
    """Return the probe in plain types; or none, and why.

    Rows that come back with another type may get other answers, and then they are of no use.
    """
    try:
        parts: dict[str, Any] = {"rows": pack(probe.rows), "answers": list(probe.answers)}
        Writer().encode(parts)  # raises before any of it is in the archive
        back = Probe(unpack(parts["rows"], locus.schema_), probe.answers)
    except Exception as error:  # libraries have many reasons not to take their own values back
        return None, f"not checkable: its rows cannot be kept ({type(error).__name__})"
    outcome = back.compare(locus.predictor_).outcome
    if outcome != "same":
        return None, UNSTEADY if outcome == "unsteady" else NOT_THE_SAME
    return {**parts, "is_replaced": probe.is_replaced}, REPLACED if probe.is_replaced else ""


def decode_rows(state: Mapping[str, Any], reader: Reader, schema: Schema) -> dict[str, Any]:
    """Return what a `Locus` knows of the rows of `fit`; nothing where the archive keeps none."""
    used = reader.decode(state.get("used_rows"))
    if used is not None and not _is_usable(used):
        raise ArchiveError("its digests of rows are not in the form in which fit keeps them.")
    packed = reader.decode(state.get("probe"))
    probe = None
    if packed is not None:
        answers = tuple(np.asarray(answer) for answer in packed["answers"])
        probe = Probe(unpack(packed["rows"], schema), answers, bool(packed["is_replaced"]))
        n = n_rows(probe.rows)
        if not 0 < n <= PROBE_ROWS or not answers or any(len(a) != n for a in answers):
            raise ArchiveError("the rows that it keeps to recognise the predictor are unusable.")
    return {"used_rows_": used, "probe_": probe}


def _is_usable(used: Any) -> bool:
    if not isinstance(used, UsedRows):
        return False
    sets = (used.inputs, used.labelled, *([] if used.by_loss is None else [used.by_loss]))
    arrays = [part for rows in sets if isinstance(rows, RowSet) for part in vars(rows).values()]
    return (
        len(arrays) == 2 * len(sets)
        and all(isinstance(part, np.ndarray) and part.dtype == np.uint64 for part in arrays)
        and all(part.ndim == 1 and len(part) > 0 for part in arrays)
        and all(bool(np.all(part[1:] >= part[:-1])) for part in arrays)
        and used.labels in ("y", "losses")
        and isinstance(used.label_type, str)
        and isinstance(used.salt, bytes)
    )
