"""A headless Chromium, driven over WebDriver.

Waiting is the driver's: `Browser.find` returns once the element is there, or fails.
"""

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.programs import require_program

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, 12: the key of a reference
_WAIT_MS = 30_000
_STARTED = re.compile(r"started successfully on port (\d+)")


class WebDriverError(Exception):
    """The driver refused; its own words."""


class StaleElementError(WebDriverError):
    """The page has replaced the element since it was found."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of the page that is shown.

    ``search`` is how it was found alone: a page that renews itself may have replaced it before it
    is read, and then it is found again.
    """

    browser: "Browser"
    reference: str
    search: Mapping[str, str] | None = None

    def _read(self, what: str) -> Any:  # noqa: ANN401 - any JSON
        try:
            return self.browser.command("GET", f"/element/{self.reference}/{what}")
        except StaleElementError:
            if self.search is None:
                raise
            return self.browser.found(self.search)._read(what)

    def click(self) -> None:
        """Press it as a mouse does; it has to be visible."""
        self.browser.command("POST", f"/element/{self.reference}/click", {})

    def type(self, text: str) -> None:
        """Type into it."""
        self.browser.command("POST", f"/element/{self.reference}/value", {"text": text})

    def attribute(self, name: str) -> str | None:
        """An attribute of it."""
        value: str | None = self._read(f"attribute/{name}")
        return value

    @property
    def text(self) -> str:
        """Its text as a person sees it."""
        return str(self._read("text"))

    @property
    def role(self) -> str:
        """Its role for a screen reader."""
        return str(self._read("computedrole"))

    @property
    def label(self) -> str:
        """Its accessible name."""
        return str(self._read("computedlabel"))


class Browser:
    """A window of its own, with no history and no cookie."""

    def __init__(self, port: int, capabilities: Mapping[str, Any]) -> None:
        self._port = port
        self._session = ""
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/session/{made['sessionId']}"
        self.command("POST", "/timeouts", {"implicit": _WAIT_MS, "script": _WAIT_MS})

    def close(self) -> None:
        """End it."""
        self._call("DELETE", self._session)

    def renew(self) -> None:
        """Show one empty window instead of all others, and delete data of earlier pages.

        A window has its history, its size and its scripts; cookies and files are the browser's.
        """
        former = self.command("GET", "/window/handles")
        made = self.command("POST", "/window/new", {"type": "tab"})["handle"]
        if (origin := self.run("return location.origin")) != "null":
            self._cdp("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self._cdp("Network.clearBrowserCookies")
        self._cdp("Network.clearBrowserCache")
        for handle in former:
            self.command("POST", "/window", {"handle": handle})
            self.command("DELETE", "/window")
        self.command("POST", "/window", {"handle": made})
        self.log()

    def open(self, url: str) -> None:
        """Go to an address and wait until it is loaded."""
        self.command("POST", "/url", {"url": url})

    def find(self, css: str) -> Element:
        """The first element that the selector names, once there is one."""
        return self.found({"using": "css selector", "value": css})

    def find_xpath(self, path: str) -> Element:
        """As `find`, by the text of an element for example."""
        return self.found({"using": "xpath", "value": path})

    def found(self, search: Mapping[str, str]) -> Element:
        """The first element that a search of WebDriver finds, once there is one."""
        answer = self.command("POST", "/element", dict(search))
        return Element(self, answer[_ELEMENT], search)

    def all(self, css: str) -> list[Element]:
        """Every element that the selector names, at least one."""
        found = self.command("POST", "/elements", {"using": "css selector", "value": css})
        return [Element(self, each[_ELEMENT]) for each in found]

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401 - any JSON
        """The value of a function body of JavaScript in the page."""
        body = {"script": script, "args": list(arguments)}
        return self.command("POST", "/execute/sync", body)

    def wait_for(self, script: str) -> None:
        """Wait until a function body of JavaScript returns something true."""
        polling = (
            "const done = arguments[arguments.length - 1];"
            f"const test = () => {{ {script} }};"
            "const look = () => test() ? done(true) : setTimeout(look, 50); look();"
        )
        self.command("POST", "/execute/async", {"script": polling, "args": []})

    def log(self) -> list[str]:
        """New messages of the console: errors, blocked content."""
        entries = self.command("POST", "/se/log", {"type": "browser"})
        return [str(entry["message"]) for entry in entries]

    def prefer_colours(self, scheme: str) -> None:
        """Set the preferred colour scheme to ``dark`` or ``light``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._cdp("Emulation.setEmulatedMedia", features=features)

    def show_in(self, width: int, height: int) -> None:
        """Set the size of the screen; a desktop window cannot be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._cdp("Emulation.setDeviceMetricsOverride", **metrics)

    def before_each_page(self, script: str) -> None:
        """Run a script in each page that is opened from now on, before any script of the page."""
        self._cdp("Page.addScriptToEvaluateOnNewDocument", source=script)

    def press(self, key: str) -> None:
        """Press a key, by its code in WebDriver (17.4.2) or as a letter."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        actions = {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}
        self.command("POST", "/actions", actions)

    @property
    def url(self) -> str:
        """The address that is shown."""
        return str(self.command("GET", "/url"))

    @property
    def title(self) -> str:
        """The title of the window."""
        return str(self.command("GET", "/title"))

    @property
    def cookies(self) -> list[dict[str, Any]]:
        """The cookies for this page, those too that no script can read."""
        found: list[dict[str, Any]] = self.command("GET", "/cookie")
        return found

    def screenshot(self, path: Path) -> None:
        """Write a screenshot to a PNG file."""
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))

    def command(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        """One command of WebDriver for this window."""
        return self._call(method, self._session + path, body)

    def _cdp(self, command: str, **parameters: object) -> None:
        """A command of Chromium's own protocol."""
        self.command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        connection = HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            connection.request(
                method, path, json.dumps(body).encode() if body is not None else None
            )
            answer = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(answer, dict) and "error" in answer:
            is_stale = answer["error"] == "stale element reference"
            kind = StaleElementError if is_stale else WebDriverError
            raise kind(f"{method} {path}: {answer['error']}: {answer['message']}")
        return answer


@contextmanager
def chromedriver(folder: Path) -> Iterator[int]:
    """A running driver; its port."""
    require_program("chromium")
    program = require_program("chromedriver")
    command = [str(program), "--port=0"]
    # Not below the folder of a test: a socket of Chromium's has at most 107 characters in its path.
    with TemporaryDirectory(prefix="chromium") as short:
        env = {**os.environ, "HOME": str(folder), "TMPDIR": short}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            env=env,
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                lines = iter(process.stdout.readline, "")
                started = next(found for line in lines if (found := _STARTED.search(line)))
                yield int(started[1])
            finally:
                process.terminate()
                process.communicate()


@contextmanager
def chromium(port: int, *, scripts: bool = True) -> Iterator[Browser]:
    """A window of a headless Chromium. ``scripts=False``: pages run none."""
    preferences = {} if scripts else {"profile.managed_default_content_settings.javascript": 2}
    arguments = [
        "--headless=new",
        "--no-sandbox",  # tests run as root in containers, and open pages of their own only
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--lang=en-US",
        "--window-size=1200,1000",
    ]
    browser = Browser(
        port,
        {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "prefs": preferences},
            "goog:loggingPrefs": {"browser": "ALL"},
        },
    )
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a driver for all tests."""
    with chromedriver(tmp_path_factory.mktemp("chromedriver")) as port:
        yield port


@pytest.fixture(scope="session")
def shared_browser(driver: int) -> Iterator[Browser]:
    """A Chromium for all tests: one takes a second of a processor to start."""
    with chromium(driver) as window:
        yield window


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    """A window of a test's own."""
    yield shared_browser
    shared_browser.renew()
