"""A fitted scorer behind HTTP: ``create_app`` for any ASGI server, ``serve`` to run one."""

from locuscore._shared.optional import require

for _package in ("starlette", "pydantic_core", "uvicorn", "prometheus_client", "pyarrow"):
    require(_package, extra="service")

from locuscore.service._app import create_app  # noqa: E402 - after the check of the extra
from locuscore.service._server import serve  # noqa: E402 - after the check of the extra
from locuscore.service._settings import LedgerSettings, Settings  # noqa: E402 - after the check

__all__ = ["LedgerSettings", "Settings", "create_app", "serve"]
