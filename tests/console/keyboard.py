"""A browser that is used by its keys alone, and looked over on every page."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_selenium_python import Axe
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
PATIENCE = 60
"""Seconds until something that should happen has not happened."""

MOST_TABS = 120
"""Controls of a page, at most."""

GRAVE = ("serious", "critical")

_MARK = """
for (const each of document.querySelectorAll("[data-goal]")) each.removeAttribute("data-goal");
const says = (each) => each.innerText.replace(/\\s+/g, " ").trim();
const goal = [...document.querySelectorAll(arguments[0])].find(
  (each) => each.offsetParent && says(each).startsWith(arguments[1]));
goal?.setAttribute("data-goal", "");
return Boolean(goal);
"""

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM.exists() and DRIVER.exists()),
    reason="no browser: apt-get install chromium chromium-driver",
)


class Keyboard:
    """Drives one browser; ``looked_over``: titles of the pages that axe has judged."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.looked_over: set[str] = set()

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def chord(self, held: str, key: str) -> None:
        """Press a key while another is held."""
        ActionChains(self.driver, duration=0).key_down(held).send_keys(key).key_up(held).perform()

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds."""
        waiting = WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05)
        try:
            return waiting.until(lambda _: holds())
        except TimeoutException:
            shown = self.ask("document.body.innerText")[-2000:]
            where = f"{self.driver.title} at {self.driver.current_url}"
            raise AssertionError(f"waited in vain on {where}:\n{shown}") from None

    def ask(self, script: str) -> Any:
        """What a script finds in the page."""
        return self.driver.execute_script(f"return {script}")

    def arrive(self, title: str) -> None:
        """Wait for a page whose title begins so, and look it over the first time."""
        self.until(
            lambda: (
                self.driver.title.startswith(title)
                and self.ask("document.readyState") == "complete"
            )
        )
        if title not in self.looked_over:
            self.looked_over.add(title)
            self._look_over()

    def go_to(self, selector: str) -> None:
        """Press Tab until the focus is on what ``selector`` names, and is seen there."""
        for _ in range(MOST_TABS):
            if self.ask(f"document.activeElement.matches({selector!r})"):
                outline = self.ask("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"the focus is not seen on {selector}"
                return
            self.press(Keys.TAB)
        raise AssertionError(f"no way to {selector} by the Tab key on {self.driver.current_url}")

    def follow(self, text: str) -> None:
        """Go to the link of this text, and press Enter."""
        self._mark("a", text)
        self.go_to("[data-goal]")
        self.press(Keys.ENTER)

    def push(self, text: str) -> None:
        """Go to the button of this text, and press Enter."""
        self._mark("button", text)
        self.go_to("[data-goal]")
        self.press(Keys.ENTER)

    def unfold(self, text: str) -> None:
        """Open what lies under a heading of this text."""
        self._mark("summary", text)
        self.go_to("[data-goal]")
        self.press(Keys.ENTER)

    def fill(self, selector: str, text: str) -> None:
        """Go to a field, and write over what it holds; in a list, choose by the first letters."""
        self.go_to(selector)
        if self.ask("document.activeElement.tagName") == "INPUT":
            self.chord(Keys.CONTROL, "a")
        self.press(text)

    def errors(self) -> list[str]:
        """What the browser complained of: scripts, and what the content policy forbids."""
        return [each["message"] for each in self.driver.get_log("browser")]

    def _mark(self, tag: str, text: str) -> None:
        """Name the first element of this text that is seen; pages name theirs by text alone."""
        found = self.driver.execute_script(_MARK, tag, text)
        assert found, f"no {tag} '{text}' on {self.driver.current_url}"

    def _look_over(self) -> None:
        """Nothing grave, in light; and in dark no contrast that is too small."""
        axe = Axe(self.driver)
        axe.inject()
        found = axe.run()["violations"]
        self.show_in("dark")
        colours = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        found += axe.run(options=colours)["violations"]
        self.show_in("light")
        grave = [
            (each["id"], [node["html"] for node in each["nodes"]])
            for each in found
            if each["impact"] in GRAVE
        ]
        assert not grave, (self.driver.title, grave)

    def show_in(self, scheme: str) -> None:
        """Let the reader prefer light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """A browser with a profile of its own; it reaches nothing but this machine."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--window-size=1280,900",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
        try:
            yield Keyboard(driver)
        finally:
            driver.quit()
