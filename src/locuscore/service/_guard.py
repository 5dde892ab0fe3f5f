"""What every request passes first: the checks of host and key, the limit on load, the count."""

import ipaddress
import time
from collections.abc import Collection
from functools import lru_cache

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from locuscore.service._keys import Keys, given_key
from locuscore.service._metrics import Metrics
from locuscore.service._request_log import Facts, log_request, spanned
from locuscore.service._settings import Settings

# Those who watch whether the service lives need not know its key.
WITHOUT_KEY = {"/healthz", "/livez", "/readyz"}
SCORE = "/score"
# Who may score may not thereby write labels or see the status: these have keys of their own.
LABELS, WATCH, PAGE = "/labels", "/watch", "/watch/page"
ROLE_OF = {"/metrics": "metrics", "/reload": "reload", LABELS: "labels", WATCH: "watch"}
ROLE_OF |= {PAGE: "watch"}
FROM_BROWSERS = {WATCH, PAGE, "/docs", "/openapi.json"}  # which ask for the key as a password

WRONG_KEY = JSONResponse(
    {"error": "the API key is missing or wrong; send the header Authorization: Bearer <key>."},
    401,
    {"WWW-Authenticate": "Bearer"},
)
WRONG_LABELS_KEY = JSONResponse(
    {"error": "the key for labels is missing or wrong; send Authorization: Bearer <key>."},
    401,
    {"WWW-Authenticate": "Bearer"},
)
WRONG_WATCH_KEY = JSONResponse(
    {"error": "the key for the status is missing or wrong; send it as Bearer, or as a password."},
    401,
    {"WWW-Authenticate": 'Basic realm="locuscore watch"'},
)
# The same, for routes that a person opens in a browser.
WRONG_KEY_PAGE = JSONResponse(
    {"error": "the API key is missing or wrong; send it as Bearer, or as a password."},
    401,
    {"WWW-Authenticate": 'Basic realm="locuscore"'},
)
WRONG_OWN_KEY = {"labels": WRONG_LABELS_KEY, "watch": WRONG_WATCH_KEY}
OWN_VARIABLE = {"labels": "LOCUSCORE_LABELS_KEY", "watch": "LOCUSCORE_WATCH_KEY"}
WRONG_HOST = JSONResponse(
    {
        "error": "without a key the service answers to names of its own machine only, such as "
        "localhost; list other names in Settings(hosts=...), or set a key."
    },
    421,
)
OVERLOADED = JSONResponse(
    {"error": "too many requests are under way; try again."}, 503, {"Retry-After": "1"}
)


class Guard:
    """ASGI middleware that checks host and key, sheds load beyond the limit, and counts."""

    def __init__(
        self,
        app: ASGIApp,
        scoring: ASGIApp,
        settings: Settings,
        keys: Keys,
        metrics: Metrics,
        paths: Collection[str],
    ) -> None:
        self.app, self.scoring = app, scoring
        self.keys = keys
        self.hosts = frozenset(host.lower() for host in settings.hosts)
        self.max_requests = settings.max_requests
        self.under_way = 0
        self.metrics = metrics
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, path = time.perf_counter(), 500, route_path(scope)
        facts = Facts.of(scope)

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *facts.headers]
            await send(message)

        try:
            if not self._is_for_us(scope):
                await WRONG_HOST(scope, receive, watched)
            elif (refusal := self._refusal(path, scope, facts)) is not None:
                await refusal(scope, receive, watched)
            elif path == SCORE:
                await self._score(scope, facts, receive, watched)
            else:
                with spanned(scope, facts):
                    await self.app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            # Paths that clients make up would each become a series of Prometheus.
            known = path if path in self.paths else "other"
            self.metrics.answered(known, status, seconds)
            log_request(scope, facts, status, seconds)

    def _refusal(self, path: str, scope: Scope, facts: Facts) -> JSONResponse | None:
        """The answer to a request whose key may not do this; None if it may."""
        role = ROLE_OF.get(path, "score")
        if path in WITHOUT_KEY or not (self.keys.are_asked or self.keys.has_role(role)):
            return None
        key = given_key(scope["headers"], or_password=path in FROM_BROWSERS)
        holder = None if key is None else self.keys.holder(key)
        if holder is not None:
            facts.key = holder.name
            if role in holder.roles:
                return None
        if role in WRONG_OWN_KEY and not self.keys.has_role(role):
            sentence = (
                f"this route needs a key of its own, and none has the role {role!r} yet; give it "
                f"to one in the file of keys, or set {OWN_VARIABLE[role]}."
            )
            return JSONResponse({"error": sentence}, 403)
        if holder is not None and holder.is_from_file:
            sentence = f"the key has no role {role!r}; its roles are {sorted(holder.roles)}."
            return JSONResponse({"error": sentence}, 403)
        if role not in WRONG_OWN_KEY:
            return WRONG_KEY_PAGE if path in FROM_BROWSERS else WRONG_KEY
        return WRONG_OWN_KEY[role]

    def _is_for_us(self, scope: Scope) -> bool:
        """Whether the Host header names this machine; asked on loopback without a key only.

        A web page can have its own name point at the loopback address. To the browser the service
        then has the origin of the page, whose script may read the answers; but its requests still
        carry that name.
        """
        server = scope.get("server")
        if self.keys.are_asked or server is None or not is_loopback(server[0]):
            return True
        given = (value.decode("latin-1") for name, value in scope["headers"] if name == b"host")
        return all(is_loopback(host) or host in self.hosts for host in map(host_name, given))

    async def _score(self, scope: Scope, facts: Facts, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before any work if too many are under way."""
        if self.under_way >= self.max_requests:
            await OVERLOADED(scope, receive, send)
            return
        self.under_way += 1
        self.metrics.under_way.inc()
        try:
            # Straight to its route; the router says what is wrong with other methods.
            app = self.scoring if scope["method"] == "POST" else self.app
            with spanned(scope, facts):
                await app(scope, receive, send)
        finally:
            self.under_way -= 1
            self.metrics.under_way.dec()


def route_path(scope: Scope) -> str:
    """Return the path below the root path, which is what routes are found by."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path.startswith(f"{root}/") else path


def host_name(value: str) -> str:
    """Return the name in a Host header, without its port."""
    name = value.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


@lru_cache(1024)  # asked for every request
def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
