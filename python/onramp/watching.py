"""A run in the browser while it goes: a server on this machine, and the page that stays."""

from __future__ import annotations

import json
import os
import threading
import time
import webbrowser
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from onramp.engine import Status
from onramp.errors import OnRampError
from onramp.folders import replacing
from onramp.pages import page
from onramp.scenario import Scenario

LOOPBACK = "127.0.0.1"
#: The page that stays, in the result folder.
FILE = "watch.html"
#: Seconds between two pictures, while a page asks for them.
PICTURE_S = 0.5
#: A page that has not asked for so many seconds is gone; at the end the others are waited for as long.
PATIENCE_S = 3.0


class Board:
    """State of a run as its page shows it.

    Parameters
    ----------
    scenario : Scenario
        Loaded, with every default written out.
    """

    def __init__(self, scenario: Scenario) -> None:
        document = scenario.document
        onramp = document["onramp"]
        self._facts: dict[str, Any] = {
            "scenario": scenario.name,
            "seed": scenario.seed,
            "about": f"{document['network']['kind']} · {document['transport']['kind']} · "
            + (f"On-Ramp, T {onramp['threshold']}" if onramp["enabled"] else "without On-Ramp"),
            "onramp": onramp["enabled"],
            "threshold": onramp["threshold"] if onramp["enabled"] else None,
            "foot": "",
        }
        self._began = time.monotonic()
        self._status = Status(0.0, 0.0, 0, 0)
        self._state = "running"
        self._picture = "null"
        self._take: Callable[[], str] = lambda: "null"
        self._asked = self._taken = float("-inf")
        self._wall_s: float | None = None
        #: Set once a page has had the state after the end.
        self.seen = threading.Event()

    def report(self, label: str, status: Status | None) -> None:
        """The run is this far."""
        if status is not None:
            self._status = status

    def picture(self, take: Callable[[], str]) -> None:
        """`take` returns the picture so far as JSON, until it is given anew or the run is over."""
        self._take = take
        now = time.monotonic()
        if now - self._asked < PATIENCE_S and now - self._taken >= PICTURE_S:
            self._picture, self._taken = take(), now

    def end(self, *, complete: bool, folder: Path) -> None:
        """The run is over; its results are in `folder`."""
        self._wall_s = time.monotonic() - self._began
        self._facts["foot"] = f"Results: {folder}."
        self._picture = self._take()
        self._state = "done" if complete else "interrupted"

    @property
    def is_watched(self) -> bool:
        """True while a page asks."""
        return time.monotonic() - self._asked < PATIENCE_S

    def answer(self) -> str:
        """Data of the page, for one that asks."""
        self._asked = time.monotonic()
        ended = self._state != "running"
        text = self.data()
        if ended:
            self.seen.set()
        return text

    def data(self) -> str:
        """Data of the page as JSON; times in microseconds, where no other unit is in a name."""
        status, wall_s = self._status, self._wall_s or time.monotonic() - self._began
        share = 1.0 if self._state == "done" else status.share
        facts = self._facts | {
            "state": self._state,
            "share": share,
            "left_s": wall_s * (1 - share) / share if share > 0.01 else None,
            "wall_s": wall_s,
            "simulated_us": status.simulated_us,
            "packet_hops": status.packet_hops,
        }
        return json.dumps(facts, allow_nan=False)[:-1] + f', "picture": {self._picture}}}'

    def write(self, folder: Path) -> Path:
        """Write the page with its data into a folder."""
        path = folder / FILE
        with replacing(path) as part:
            part.write_text(page("watch", self.data()), encoding="utf-8")
        return path


class Server:
    """Serves a board's page on this machine while it is entered.

    Parameters
    ----------
    port : int
        0: one that is free.

    Raises
    ------
    OnRampError
        If the port cannot be had.
    """

    def __init__(self, board: Board, port: int = 0) -> None:
        self._board = board
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler(board))
        except OSError as e:
            raise OnRampError(f"--port {port}: {e.strerror or e}; leave it out for a free one") from e
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Pages that are open get the end of the run.
        if kind is None and self._board.is_watched:
            self._board.seen.wait(PATIENCE_S)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def open_browser(url: str) -> bool:
    """Open a page in a browser with a window; False if there is none."""
    if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return False
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    # Some return when they are closed.
    threading.Thread(target=browser.open, args=(url,), daemon=True).start()
    return True


def _handler(board: Board) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD; nothing can be changed."""

        server_version, sys_version = "onramp", ""
        timeout = 5

        def do_GET(self) -> None:
            if not _is_for_us(self.headers.get_all("Host") or []):
                self._send(403, "text/plain", "Ask for 127.0.0.1 or localhost.\n")
            elif self.path == "/":
                self._send(200, "text/html", page("watch"))
            elif self.path == "/data.json":
                self._send(200, "application/json", board.answer())
            else:
                self._send(404, "text/plain", "There is / alone.\n")

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not told of."""

    return Handler


HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _is_for_us(hosts: list[str]) -> bool:
    """True if the only Host is this machine: a site whose name points here (DNS rebinding) has its own."""
    if len(hosts) != 1:
        return False
    name, _, port = hosts[0].partition(":")
    return name.lower() in (LOOPBACK, "localhost") and (port.isdigit() or not port)
