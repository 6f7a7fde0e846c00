"""A real Chromium without a window, driven over a pipe with its DevTools protocol: no driver, no port, no package.

``python tests/reports/browser.py page.html folder`` takes the screenshots of a page that people look at.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
PATIENCE = 30.0  # seconds for one answer


def find() -> str | None:
    """The browser on this machine, if there is one; UNPOOLED_CHROMIUM names another."""
    return os.environ.get("UNPOOLED_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> tuple[str | None, str]:
    """The browser, or why there is none. With CI=true, or UNPOOLED_INSTALL_CHROMIUM=1, root installs Debian's."""
    if path := find():
        return path, ""
    if os.environ.get("UNPOOLED_INSTALL_CHROMIUM") != "1" and os.environ.get("CI") != "true":
        return None, (
            "no Chromium on this machine: install it (Debian: apt-get install chromium), name it with "
            "UNPOOLED_CHROMIUM, or set UNPOOLED_INSTALL_CHROMIUM=1 and run as root"
        )
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None, "no Chromium on this machine, and installing it takes root and apt-get"
    with open(Path(tempfile.gettempdir()) / "unpooled-chromium.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of one test run may want it at once
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
            if find():
                break
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                return None, f"{' '.join(command)} failed: {' '.join(done.stderr.split())[-200:]}"
    return find(), "apt-get installed it, and there is no chromium to run all the same"


class Browser:
    """One page of one browser. Every event it reports is kept in ``events``."""

    def __init__(self, path: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="unpooled-chromium-")
        here, there = os.pipe(), os.pipe()
        # Chromium reads from 3 and writes to 4: ours must be others, or one would be closed to make room for the other.
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (here[0], there[1]))
        os.close(here[0])
        os.close(there[1])
        shell = f'exec "$@" 3<&{read} 4>&{write}'
        options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [
            "--disable-dev-shm-usage",
            "--no-first-run",
            f"--user-data-dir={self.folder}",
            "--disable-extensions",
        ]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", path, *options, "about:blank"],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read)
        os.close(write)
        self.out, self.into = here[1], there[0]
        self.number, self.buffer = 0, b""
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One question, and its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self.buffer += more
        one, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(one))

    def open(self, page: Path, kind: str = "desktop", **features: str) -> None:
        """Show a page at the width of a desktop or a phone; features as in ``prefers_color_scheme="dark"``."""
        width, height = WIDTHS[kind]
        self.events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=kind == "phone",
        )  # fmt: skip
        media = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.ask("Emulation.setEmulatedMedia", features=media)
        self.ask("Page.navigate", url=page.absolute().as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.run("document.readyState + location.href") != "complete" + page.absolute().as_uri():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{page} does not load")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """A key, as a person presses it."""
        names = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **names, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **names)

    def point(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self) -> list[str]:
        """Return the messages of the console: errors and warnings of the page, and everything logged."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"])[:400] for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Everything that was asked for since the page was opened, the page itself included."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def screenshot(self, path: Path, top: float | None = None) -> None:
        """The whole page, or what a screen shows from ``top`` down."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        view = self.ask("Page.getLayoutMetrics")["cssLayoutViewport"]
        height = size["height"] if top is None else min(view["clientHeight"], size["height"] - top)
        clip = {"x": 0, "y": top or 0, "width": size["width"], "height": height, "scale": 1}
        taken = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"])

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(Exception):
            self.session = None
            self.ask("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(5)
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main(page: Path, folder: Path) -> None:
    """Screenshots of a page: whole, as on a desktop and on a phone, and on a dark screen; and as it prints."""
    path, why = install()
    if path is None:
        raise SystemExit(why)
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(path) as browser:
        for kind in WIDTHS:
            browser.open(page, kind)
            browser.screenshot(folder / f"{kind}.png")
        browser.open(page, "desktop", prefers_color_scheme="dark")
        browser.screenshot(folder / "dark.png")
        (folder / "print.pdf").write_bytes(browser.pdf())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
