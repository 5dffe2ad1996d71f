# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Chromium without a window, driven by its DevTools protocol over a pipe: https://chromedevtools.github.io/devtools-protocol.

The standard library is enough: messages are JSON, ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
import typing as t
from pathlib import Path

Answer = dict[str, t.Any]
#: Seconds within which each answer comes, also on a machine under load.
PATIENCE = 60.0
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
)


PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Return the path of the browser, None if there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class BrowserError(Exception):
    """The browser refused a call, or an expression raised an exception."""


class Browser:
    """One page of one browser. errors: what its console, its policy and its scripts complained of."""

    def __init__(self, profile: Path) -> None:
        path = program()
        assert path, "chromium is missing -> make dev"
        # Chromium reads from descriptor 3 and writes to 4; copies above them are not overwritten on the way.
        inward, self._to = os.pipe()
        self._from, outward = os.pipe()
        high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 20) for one in (inward, outward)]
        null = os.open(os.devnull, os.O_RDWR)
        options = [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        self._pid = os.posix_spawn(
            path,
            [path, *options, f"--user-data-dir={profile}", "about:blank"],
            {**os.environ, "HOME": str(profile)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, high[0], 3),
                (os.POSIX_SPAWN_DUP2, high[1], 4),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, null, 2),
            ],
            setsid=True,
        )
        for one in (inward, outward, null, *high):
            os.close(one)
        self._read = b""
        self._count = 0
        self._session: str | None = None
        self._events: list[Answer] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and its processes."""
        with contextlib.suppress(BrowserError, OSError, AssertionError):
            self._session = None
            self.call("Browser.close")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not os.waitpid(self._pid, os.WNOHANG)[0]:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.killpg(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._to)
        os.close(self._from)

    # -- the protocol ------------------------------------------------------------------------------
    def call(self, method: str, **params: t.Any) -> Answer:
        """Return the answer to a call; events that arrive before it are kept."""
        self._count += 1
        message: Answer = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._next(method)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return t.cast(Answer, answer["result"])
            self._event(answer)

    def _next(self, waited_for: str) -> Answer:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._read:
            ready = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"Chromium did not answer {waited_for} within {PATIENCE:g} s"
            more = os.read(self._from, 1 << 20)
            assert more, f"Chromium ended during {waited_for}"
            self._read += more
        message, _zero, self._read = self._read.partition(b"\0")
        return t.cast(Answer, json.loads(message))

    def _event(self, event: Answer) -> None:
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif name == "Runtime.consoleAPICalled":
            self.errors.append(json.dumps(params["args"])[:500])
        elif name == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith(("file:", "data:", "about:", "blob:")):
                self.errors.append(f"asks the network for {address}")
        elif name is not None:
            self._events.append(event)

    def wait_for(self, name: str) -> Answer:
        """Return the next event of a name, also one that has arrived already."""
        while True:
            for event in self._events:
                if event["method"] == name:
                    self._events.remove(event)
                    return t.cast(Answer, event["params"])
            self._event(self._next(name))

    # -- what a person does ------------------------------------------------------------------------
    def open(self, path: Path) -> float:
        """Open a file, and return the seconds until its load event and its first frame."""
        self._events.clear()
        self.errors.clear()
        started = time.monotonic()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
        return time.monotonic() - started

    def run(self, expression: str) -> t.Any:
        """Return the value of an expression of JavaScript; of a promise, what it resolves to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window as wide as a device; a narrow one is a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def appear(self, scheme: str) -> None:
        """Prefer a scheme of colours: light or dark."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def click(self, selector: str) -> None:
        """Click at the middle of an element by the mouse."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll to an element, and return its middle within the window."""
        found = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center'}); const at = one.getBoundingClientRect();"
            " return [at.x + at.width / 2, at.y + at.height / 2]; })()"
        )
        return found[0], found[1]

    def press(self, key: str) -> None:
        """Press a key: Enter, Tab, ArrowDown."""
        code = {
            "Enter": 13,
            "Tab": 9,
            "ArrowDown": 40,
            "ArrowRight": 39,
            "ArrowUp": 38,
            "ArrowLeft": 37,
        }[key]
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **(more if kind == "keyDown" else {}),
            )

    def picture(
        self, clip: tuple[float, float, float, float] | None = None, scale: float = 1
    ) -> bytes:
        """Return the whole page, or a part of it (x, y, width, height), as a PNG."""
        if clip is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = (0, 0, size["width"], size["height"])
        x, y, width, height = clip
        answer = self.call(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": x, "y": y, "width": width, "height": height, "scale": scale},
        )
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """Return the page as it would be printed on A4."""
        answer = self.call(
            "Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False
        )
        return base64.b64decode(answer["data"])
