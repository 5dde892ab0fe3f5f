"""``locuscore serve``: an archive over HTTP."""

import os
from typing import Annotated

from locuscore.cli import _options as options
from locuscore.cli._option_values import ArchiveOptions, check_file
from locuscore.cli._options import option

KEY = "LOCUSCORE_API_KEY"


def serve(
    *,
    archive: options.Archive,
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "0 for a free one.", least=0)] = 8000,
    reading: ArchiveOptions,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Score rows over HTTP until interrupted; SIGHUP loads the archive again.

    LOCUSCORE_API_KEY in the environment is the key that requests must carry.
    An address that other machines can reach needs one.
    """
    check_file(archive)
    from locuscore import service  # noqa: PLC0415 - needs an extra

    load = reading.loader()
    settings = service.Settings(api_key=os.environ.get(KEY), archive_key=reading.key)
    log_level = "warning" if quiet else "info"
    service.serve(archive, host, port, settings, load=load, log_level=log_level)
