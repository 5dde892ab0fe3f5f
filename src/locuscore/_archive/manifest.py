"""What an archive says of itself, read without building anything in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locuscore._archive.container import ArchiveError, checked, is_signed, read_archive

IN_THE_MANIFEST = {
    "written_by": dict,
    "card": str,
    "columns": list,
    "alphas": list,
    "n_calibration": int,
    "loss": str,
    "engine": str,
    "predictor": str,
    "rows": str,
    "features": list,
}
LATER = {
    "signals": str,
    "promise": str,
    "unit": str,
    "predictor_held": str,
}  # absent from older archives
IN_A_FEATURE = {"name": str, "type": str}
IN_KEPT_ROWS = {"digests": int, "probe_rows": int, "note": str}  # absent from older archives


def inspect_archive(path: str | Path, *, key: bytes | None = None) -> dict[str, Any]:
    """What an archive says it holds and guarantees; nothing in it is built.

    Every member is compared with its digest. With a key, the archive must be signed with it, or
    `ArchiveError` is raised before anything in it is parsed.

    Returns
    -------
    dict
        The manifest that `Scorer.save` has written, among others ``card``, ``columns``,
        ``features`` and ``written_by``, and four facts about the file: its name as ``archive``, its
        size in ``bytes``, whether it ``is_signed``, and whether it ``is_authenticated``, which it
        is with a key only.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer, inspect_archive
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> path = Path(mkdtemp(), "prices.locus")
    >>> Scorer(locus).save(path)
    >>> found = inspect_archive(path)
    >>> found["columns"]
    ['prediction', 'bound_0.1']
    """
    manifest, _ = read_archive(path, key)
    checked(lambda: check_manifest(manifest), path)
    # The facts come last, so that no manifest can claim others.
    return {
        **manifest,
        "archive": str(path),
        "bytes": Path(path).stat().st_size,
        "is_signed": is_signed(path),
        "is_authenticated": key is not None,
    }


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise unless a manifest has what `Scorer.save` puts into it."""
    _check_parts(manifest, IN_THE_MANIFEST)
    _check_parts(manifest, {name: kind for name, kind in LATER.items() if name in manifest})
    for feature in manifest["features"]:
        _check_parts(feature, IN_A_FEATURE)
    if manifest.get("kept_rows") is not None:
        _check_parts(manifest["kept_rows"], IN_KEPT_ROWS)


def _check_parts(found: Any, expected: Mapping[str, type]) -> None:
    for name, kind in expected.items():
        if not isinstance(found, Mapping) or not isinstance(found.get(name), kind):
            raise ArchiveError(
                f"its manifest has no {name!r}, or not in the form that Scorer.save writes; save "
                "the scorer again."
            )
