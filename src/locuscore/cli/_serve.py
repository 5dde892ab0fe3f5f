"""``locuscore serve``: an archive over HTTP."""

import os
from pathlib import Path
from typing import Annotated, Any

from locuscore.cli import _options as options
from locuscore.cli._option_values import ArchiveOptions, check_file
from locuscore.cli._options import option, switch
from locuscore.cli._watch_options import WATCH, OptionalStore, WatchOptions

KEY = "LOCUSCORE_API_KEY"
OWN_KEYS = {"labels_key": "LOCUSCORE_LABELS_KEY", "watch_key": "LOCUSCORE_WATCH_KEY"}
StoreOptional = Annotated[
    bool,
    switch("--store-optional", "Score also what cannot be kept; a metric counts it.", WATCH),
]
SpoolFolder = Annotated[
    Path | None,
    option(
        "--spool",
        "FOLDER",
        "Where decisions wait for the ledger. \\[default: beside the archive]",
        WATCH,
    ),
]
KeepSignals = Annotated[
    bool, switch("--keep-signals", "Keep the signals of the rows, to see drift.", WATCH)
]


def serve(
    *,
    archive: options.Archive,
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "0 for a free one.", least=0)] = 8000,
    store: OptionalStore = None,
    store_optional: StoreOptional = False,
    spool: SpoolFolder = None,
    keep_signals: KeepSignals = False,
    watched: WatchOptions,
    reading: ArchiveOptions,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Score rows over HTTP until interrupted; SIGHUP loads the archive again.

    LOCUSCORE_API_KEY in the environment is the key that requests must carry.
    An address that other machines can reach needs one. With --store decisions are kept, and
    LOCUSCORE_LABELS_KEY and LOCUSCORE_WATCH_KEY are the keys for labels and for the status.
    """
    check_file(archive)
    from locuscore import service  # noqa: PLC0415 - needs an extra

    load = reading.loader()
    ledger = None
    if store is not None:
        keys: dict[str, Any] = {name: os.environ.get(key) for name, key in OWN_KEYS.items()}
        ledger = service.LedgerSettings(
            store, spool, store_optional, keep_signals=keep_signals, **keys, **watched.given()
        )
    settings = service.Settings(api_key=os.environ.get(KEY), archive_key=reading.key, ledger=ledger)
    log_level = "warning" if quiet else "info"
    service.serve(archive, host, port, settings, load=load, log_level=log_level)
