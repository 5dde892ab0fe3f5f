"""``locuscore serve``: an archive over HTTP, configured by options or by the environment."""

import os
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from locuscore.cli._environment import API_KEY, LABELS_KEY, WATCH_KEY
from locuscore.cli._option_values import ArchiveOptions, check_file
from locuscore.cli._options import option, switch
from locuscore.cli._watch_options import WATCH, OptionalStore, WatchOptions

ACCESS, LIMITS, LOG = "Who may ask", "Limits", "The log"


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Access:
    """From whom requests are taken."""

    keys: Annotated[
        Path | None,
        option("--keys", "FILE", "Keys with roles, as JSON; read again when it changes.", ACCESS),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        option("--allow-host", "NAME", "Answer to this name without a key. Repeatable.", ACCESS),
    ] = None
    tls_certificate: Annotated[
        Path | None, option("--tls-certificate", "FILE", "Certificate and chain, PEM.", ACCESS)
    ] = None
    tls_key: Annotated[
        Path | None, option("--tls-key", "FILE", "Key of the certificate, PEM.", ACCESS)
    ] = None

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Files of the certificate and of its key, if HTTPS is to be spoken."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise typer.BadParameter("--tls-certificate and --tls-key go together; give both.")
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return self.tls_certificate, self.tls_key


def limit(name: str, metavar: str, text: str) -> Any:
    """Return the option of a limit; without it the limit is that of `Settings`."""
    return option(name, metavar, text, LIMITS)


@dataclass(frozen=True)
class Limits:
    """How much is taken on; the names are those of `Settings`."""

    max_rows: Annotated[int, limit("--max-rows", "N", "Most rows in a request.")] = 50_000
    max_body_bytes: Annotated[int, limit("--max-body-bytes", "N", "Largest body.")] = 16 * 2**20
    max_requests: Annotated[
        int, limit("--max-requests", "N", "Most requests to /score under way.")
    ] = 128
    max_batch_rows: Annotated[
        int, limit("--max-batch-rows", "N", "A batch takes requests up to this.")
    ] = 512
    gather_seconds: Annotated[
        float, limit("--gather-seconds", "X", "How long a batch waits for more requests.")
    ] = 0.0
    timeout_seconds: Annotated[
        float, limit("--timeout-seconds", "X", "No answer by then is 504.")
    ] = 30.0
    receive_seconds: Annotated[
        float, limit("--receive-seconds", "X", "A request must have arrived by then.")
    ] = 5.0
    min_bytes_per_second: Annotated[
        float, limit("--min-bytes-per-second", "X", "Slowest rate of a body.")
    ] = 10_000.0
    max_header_bytes: Annotated[
        int, limit("--max-header-bytes", "N", "Largest head of a request.")
    ] = 32 * 2**10
    max_headers: Annotated[int, limit("--max-headers", "N", "Most headers in it.")] = 100
    drain_seconds: Annotated[
        float, limit("--drain-seconds", "X", "Answer on for so long after SIGTERM, not ready.")
    ] = 0.0
    shutdown_seconds: Annotated[
        int, limit("--shutdown-seconds", "N", "Then wait so long for running requests.")
    ] = 60
    allow_another_schema: Annotated[
        bool,
        limit("--allow-another-schema", "", "A reload may bring a model that takes other rows."),
    ] = False

    def given(self) -> dict[str, Any]:
        """Return them by name."""
        return {part.name: getattr(self, part.name) for part in fields(self)}


@dataclass(frozen=True)
class LedgerOptions:
    """Where decisions are kept."""

    store: OptionalStore = None
    store_optional: Annotated[
        bool,
        option("--store-optional", "", "Score also what cannot be kept; it is counted.", WATCH),
    ] = False
    spool: Annotated[
        Path | None,
        option(
            "--spool",
            "FOLDER",
            "Where decisions wait for the ledger. \\[default: beside the archive]",
            WATCH,
        ),
    ] = None
    keep_signals: Annotated[
        bool, option("--keep-signals", "", "Keep the signals of the rows, to see drift.", WATCH)
    ] = False


@dataclass(frozen=True)
class LogOptions:
    """What is told of requests, and where."""

    log_format: Annotated[
        LogFormat,
        option("--log-format", "text|json", "json has one line for each request.", LOG),
    ] = LogFormat.TEXT
    log_file: Annotated[
        Path | None, option("--log-file", "FILE", "Append to it instead of stderr.", LOG)
    ] = None
    log_rows: Annotated[
        bool, option("--log-rows", "", "Log the rows too, as they were sent.", LOG)
    ] = False
    as_json: Annotated[bool, switch("--json", "Short for --log-format json.", LOG)] = False
    quiet: Annotated[bool, switch("--quiet -q", "Log warnings and errors only.", LOG)] = False
    debug: Annotated[bool, switch("--debug", "Show the traceback of an error.", LOG)] = False

    def given(self) -> dict[str, Any]:
        """Return how `serve` is to log."""
        return {
            "log_format": "json" if self.as_json else str(self.log_format),
            "log_file": self.log_file,
            "log_level": "warning" if self.quiet else "info",
        }


def serve(
    *,
    archive: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE",
            show_default=False,
            envvar="LOCUSCORE_ARCHIVE",
            help="A file written by fit.",
        ),
    ],
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "0 for a free one.", least=0, most=65535)] = 8000,
    access: Access,
    limits: Limits,
    kept: LedgerOptions,
    watched: WatchOptions,
    reading: ArchiveOptions,
    logged: LogOptions,
) -> None:
    """Score rows over HTTP until interrupted; SIGHUP loads the archive again.

    Each option may also be a variable of the environment: --max-rows is LOCUSCORE_MAX_ROWS.

    Only in the environment: LOCUSCORE_API_KEY is the key that requests must carry; an address
    that other machines can reach needs one, or --keys. With --store decisions are kept, and
    LOCUSCORE_LABELS_KEY and LOCUSCORE_WATCH_KEY are the keys for labels and for the status.
    """
    check_file(archive)
    from locuscore import service  # noqa: PLC0415 - needs an extra

    load = reading.loader()
    ledger = None
    if kept.store is not None:
        ledger = service.LedgerSettings(
            kept.store,
            kept.spool,
            kept.store_optional,
            keep_signals=kept.keep_signals,
            labels_key=os.environ.get(LABELS_KEY),
            watch_key=os.environ.get(WATCH_KEY),
            **watched.given(),
        )
    settings = service.Settings(
        api_key=os.environ.get(API_KEY),
        keys=access.keys,
        archive_key=reading.key,
        hosts=tuple(access.allow_host or ()),
        ledger=ledger,
        log_rows=logged.log_rows,
        **limits.given(),
    )
    service.serve(archive, host, port, settings, load=load, tls=access.tls, **logged.given())
