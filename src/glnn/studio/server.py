"""The page of a labelling session, served to the browsers of this computer only.

Every request must name this server as its host, come from its own page and know the token of the
address that was opened. Nothing else is answered, so no other site and no other user gets in.
"""

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from typing import Any

from glnn._utils import check_integer, import_optional
from glnn.exceptions import GlnnError, InputError
from glnn.studio.page import Session, page_html, page_policy

HOST = "127.0.0.1"
TOKEN = "x-glnn-token"  # the header of every request but the first
MAX_BODY = 64 * 1024
POLL_SECONDS = 20.0  # how long a request for news waits for some
NAP_SECONDS = 0.05  # how often such a request looks
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class RefusedError(Exception):
    """A request that is not answered; its arguments are the status and one line."""


async def read_message(request: Any) -> dict[str, Any]:
    """Return the JSON object of a request, whose size is counted while it arrives."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise RefusedError(415, "a message must be JSON.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise RefusedError(413, f"a message must have at most {MAX_BODY // 1024} KiB.")
    try:
        message = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RefusedError(400, "a message must be JSON.") from None
    if not isinstance(message, dict):
        raise RefusedError(400, "a message must be a JSON object.")
    return message


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class StudioServer:
    """The server of one session, bound to a port of this computer when it is made."""

    def __init__(self, session: Session, port: int = 0) -> None:
        uvicorn = import_optional("uvicorn")
        self._session, self._page = session, page_html()
        self._numbers = itertools.count(1)
        self._news = 0  # changes so far; a page waits until it differs from what it knows
        self._listener = bind(port)
        self.port = int(self._listener.getsockname()[1])
        self.token = secrets.token_urlsafe(32)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._make_app(),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",  # what goes wrong is shown on the page
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=15,
            )
        )

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Answer requests until ``stop`` is called or the process is interrupted."""
        forget = self._session.listen(self._note)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._listener])
        finally:
            forget()
            self._listener.close()

    def stop(self) -> None:
        """Make ``run`` return soon; for other threads."""
        self._server.should_exit = True

    def _note(self) -> None:
        self._news = next(self._numbers)

    def _make_app(self) -> Any:
        route, middleware = _web("routing").Route, _web("middleware").Middleware
        app = _web("applications").Starlette(
            routes=[
                route("/", self._send_page),
                route("/act", self._act, methods=["POST"]),
                route("/map", self._send_map),
                route("/labels.csv", self._send_labels),
                route("/news", self._wait_for_news),
            ],
            middleware=[middleware(_web("middleware.base").BaseHTTPMiddleware, self._guard)],
        )
        app.router.redirect_slashes = False
        return app

    async def _guard(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
        """Answer a request only if its host, its origin and its token are right."""
        try:
            self._check(request)
            answer = await call_next(request)
        except Exception as error:
            answer = _refuse(error)
        answer.headers.update(_HEADERS)
        return answer

    def _check(self, request: Any) -> None:
        headers = request.headers
        for name in ("host", "origin", TOKEN):
            if len(headers.getlist(name)) > 1:
                raise RefusedError(400, f"the header {name} must be sent once.")
        host, origin = headers.get("host"), headers.get("origin")
        if host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            raise RefusedError(403, "the host must be this computer, as in the address opened.")
        if origin is None and request.method not in ("GET", "HEAD"):
            raise RefusedError(403, "the origin must be sent with a change.")
        if origin is not None and origin != f"http://{host}":
            raise RefusedError(403, "the origin must be the studio's own page.")
        known, given = self.token, headers.get(TOKEN, "").encode("latin-1")
        if request.scope["path"] == "/":
            known, given = f"token={self.token}", request.scope["query_string"]
        if not secrets.compare_digest(given, known.encode()):
            raise RefusedError(403, "the token must be that of the address printed by glnn studio.")

    async def _send_page(self, _: Any) -> Any:
        policy = {"Content-Security-Policy": page_policy()}
        return _web("responses").HTMLResponse(self._page, headers=policy)

    async def _act(self, request: Any) -> Any:
        message = await read_message(request)
        state = await _web("concurrency").run_in_threadpool(self._session.act, message)
        return _web("responses").JSONResponse(state)

    def _send_map(self, _: Any) -> Any:  # in a thread, as it is not async
        return _web("responses").PlainTextResponse(self._session.map_data())

    def _send_labels(self, _: Any) -> Any:
        return _web("responses").PlainTextResponse(self._session.labels_csv())

    async def _wait_for_news(self, request: Any) -> Any:
        known = request.query_params.get("after", "")
        deadline = time.monotonic() + POLL_SECONDS
        while str(self._news) == known and time.monotonic() < deadline:
            if self._server.should_exit:
                break
            await asyncio.sleep(NAP_SECONDS)
        return _web("responses").JSONResponse({"news": self._news})


def _web(part: str) -> Any:
    return import_optional(f"starlette.{part}")


def _refuse(error: Exception) -> Any:
    """Return the answer to a request that failed: one line as JSON."""
    if isinstance(error, RefusedError):
        status, words = error.args
    elif isinstance(error, GlnnError):
        status, words = 422, str(error)
    else:
        status, words = 500, f"the server failed: {type(error).__name__}: {error}"
    answer = _web("responses").JSONResponse
    return answer({"error": words}, status, headers={"Connection": "close"})


def bind(port: int) -> socket.socket:
    """Return a socket that listens on a port of this computer only; 0 takes a free one."""
    check_integer("port", port, low=0, high=65535)
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise InputError(
            f"port must be free, got {port} ({os.strerror(error.errno or 0)}). "
            "Name another one, or none to get a free one."
        ) from error


def serve(
    session: Session, port: int = 0, open_browser: bool = True, say: Callable[[str], object] = print
) -> None:
    """Serve the page of a session until the process is interrupted.

    Parameters
    ----------
    session
        The session; it is not closed.
    port
        Port on this computer; 0 takes a free one.
    open_browser
        Whether to open the page in the user's browser.
    say
        Is called with the lines for the user.
    """
    server = StudioServer(session, port)
    say(f"The studio is at {server.url}")
    say("Every label is saved at once. Press Ctrl-C to stop.")
    if open_browser:  # in a thread, since a browser in the terminal would not return
        threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
    server.run()
