"""Runs the application under uvicorn."""

import asyncio
import logging
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from locuscore import Scorer, __version__
from locuscore.service._app import Service, create_app
from locuscore.service._connection import protocol_with
from locuscore.service._guard import is_loopback
from locuscore.service._logs import LogFormat, Lost, logging_to
from locuscore.service._model import Load
from locuscore.service._settings import Settings

LOOPBACK = "127.0.0.1"
log = logging.getLogger("locuscore.service")
# By default a thread keeps the interpreter for 5 ms, and the event loop would wait that long
# whenever the scoring thread has it. Ten changes in each millisecond cost a fifth of the rate.
SWITCH_SECONDS = 0.001
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
    log_format: LogFormat = "text",
    log_file: str | Path | None = None,
    tls: tuple[str | Path, str | Path] | None = None,
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
        The least level of what is logged.
    log_format
        ``"text"`` for people, or ``"json"``: one object in each line, and one line per request.
    log_file
        Where the log is appended; by default it goes to stderr.
    tls
        Files of a certificate, with its chain, and of its key, both PEM; then HTTPS is spoken.

    Examples
    --------
    ::

        serve("prices.locus", port=8000, settings=Settings(api_key=key))
    """
    settings = settings or Settings()
    if settings.api_key is None and settings.keys is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached by others; set an API key (LOCUSCORE_API_KEY), name a file of "
            f"keys (--keys), or listen on {LOOPBACK}."
        )
    if tls is not None:
        check_tls(*tls)
    lost = Lost()
    with logging_to(log_file, log_format, log_level, lost, has_rows=settings.log_rows) as flush:
        app = create_app(source, settings, load=load)
        service: Service = app.state.service
        lost.counted_by(service.metrics.log_lines_lost.inc)
        name = service.store.current.name
        log.info("locuscore %s, model %s of %s", __version__, name, service.store.path or "memory")
        certificate, key = (None, None) if tls is None else map(str, tls)
        config = configured(
            app,
            settings,
            host=host,
            port=port,
            log_config=None,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(_run(Server(config, service, flush), service))
        except SystemExit:  # uvicorn's, with an exit code of its own
            raise OSError(f"cannot listen on {host}, port {port}; the log says why.") from None


def check_tls(certificate: str | Path, key: str | Path) -> None:
    """Raise unless a certificate and its key can be read and belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"{certificate} and {key} are no certificate and its key in PEM: {error}"
        ) from None


class Server(uvicorn.Server):
    """Goes on answering for a while after it was told to stop, but says that it is not ready."""

    def __init__(self, config: uvicorn.Config, service: Service, flush: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._flush = service, flush

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Write the log before uvicorn sends the signal once more, which ends the process."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second signal stops at once."""
        seconds = self._service.settings.drain_seconds
        if self._service.is_draining or not seconds:
            super().handle_exit(sig, frame)
            return
        self._service.is_draining = True
        log.info("stopping in %g seconds; not ready from now on", seconds)
        timer = threading.Timer(seconds, super().handle_exit, (sig, frame))
        timer.daemon = True
        timer.start()


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
