"""Runs the application under uvicorn."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import uvicorn

from locuscore import Scorer
from locuscore.service._app import Service, create_app
from locuscore.service._connection import protocol_with
from locuscore.service._guard import is_loopback
from locuscore.service._model import Load
from locuscore.service._settings import Settings

LOOPBACK = "127.0.0.1"
# By default a thread keeps the interpreter for 5 ms, and the event loop would wait that long
# whenever the scoring thread has it.
SWITCH_SECONDS = 0.0001
# Longer than proxies keep a connection: if the service closed first, it could do so just when the
# proxy sends the next request.
KEEP_ALIVE_SECONDS = 75


def serve(
    source: str | Path | Scorer,
    host: str = LOOPBACK,
    port: int = 8000,
    settings: Settings | None = None,
    *,
    load: Load = Scorer.load,
    log_level: str = "info",
) -> None:
    """Serve a scorer until SIGINT or SIGTERM, which let running requests finish.

    SIGHUP loads the archive again: requests go on, and if it cannot be loaded the old model stays.

    Parameters
    ----------
    source, settings, load
        As for `create_app`.
    host, port
        Where to listen; port 0 takes a free one, which the log names. An address that others can
        reach needs an API key.
    log_level
        Of uvicorn.
    """
    settings = settings or Settings()
    if settings.api_key is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached by others; set an API key, or listen on {LOOPBACK}."
        )
    app = create_app(source, settings, load=load)
    config = configured(app, settings, host=host, port=port, log_level=log_level)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_run(uvicorn.Server(config), app.state.service))
    except SystemExit:  # uvicorn's, with an exit code of its own
        raise OSError(f"cannot listen on {host}, port {port}; the log says why.") from None


def configured(app: Any, settings: Settings, **options: Any) -> uvicorn.Config:
    """Return how uvicorn runs the application, with the limits on connections."""
    return uvicorn.Config(
        app,
        http=protocol_with(settings),
        ws="none",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        **options,
    )


async def _run(server: uvicorn.Server, service: Service) -> None:
    if hasattr(signal, "SIGHUP"):
        loop = asyncio.get_running_loop()
        # A load that fails is in the log, and the old model stays.
        loop.add_signal_handler(signal.SIGHUP, service.reloads.ask)
    await server.serve()
