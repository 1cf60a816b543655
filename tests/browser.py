"""A headless Chromium, by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
PATIENCE_S = 60.0


class Browser:
    """A browser with one page while it is entered.

    Parameters
    ----------
    folder : path
        For its profile.
    """

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        # Its pipe is descriptors 3 and 4; root, as which tests run, takes it without a sandbox.
        options = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"),
            *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
            *(f"--window-size={width},{height}", f"--user-data-dir={folder / 'browser'}"),
        )
        shell = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
        self._process = subprocess.Popen(
            ["sh", "-c", shell, str(CHROMIUM), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._rest = b""
        self._calls = 0
        self._session: str | None = None
        #: All that it told of without being asked.
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while (answer := self._message(method)).get("id") != self._calls:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def _message(self, method: str) -> dict[str, Any]:
        assert self._process.stdout
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
            part = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            assert part, f"{method}: no answer"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Value of an expression of JavaScript on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer}"
        return answer["result"].get("value")

    def text(self, id_: str) -> str:
        """Text of an element."""
        return str(self.value(f"document.getElementById('{id_}').innerText"))

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while self.value(expression) is not True:
            assert time.monotonic() < end, f"never {expression}: {self.value('document.body.innerText')}"
            time.sleep(0.05)

    def point(self, selector: str, across: float, down: float = 0.5, *, click: bool = False) -> None:
        """Move to a part of the width and height of an element, and click there if asked to."""
        left, top, width, height = self.value(
            f"(() => {{ const e = document.querySelector('{selector}');"
            "e.scrollIntoView({block: 'center'});"
            "const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased") if click else ("mouseMoved",):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=left + across * width,
                y=top + down * height,
                button="none" if kind == "mouseMoved" else "left",
                clickCount=1,
            )

    def wheel(self, selector: str, across: float, down: float, by: float) -> None:
        """Turn the wheel over a part of an element."""
        self.point(selector, across, down)
        left, top, width, height = self.value(
            f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
            "return [r.left, r.top, r.width, r.height]; })()"
        )
        x, y = left + across * width, top + down * height
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Errors and warnings of the console so far, among them what the page's policy forbids."""
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        of_log = [e for e in self.events if e.get("method") == "Log.entryAdded"]
        return [
            *(e for e in self.events if e.get("method") in bad),
            *(e for e in of_log if e["params"]["entry"]["level"] != "verbose"),
        ]

    @property
    def loaded(self) -> list[str]:
        """Addresses of all that pages loaded."""
        sent = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [str(e["params"]["request"]["url"]) for e in sent]
