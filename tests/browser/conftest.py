"""A real browser, headless, from the system."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


# Not for the session: Playwright's event loop stays the running one until it is stopped, and asyncio tests of other
# files would find it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    path = next((program for name in NAMES if (program := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser, none of {', '.join(NAMES)}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # As root, as in a container, Chromium's own sandbox cannot start.
        launched = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


class Tab:
    """A page, with everything that it asked for and complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, address: str) -> Any:
        self.page.goto(address)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Waits until the list shows what passes the filters, and the detail the row that is selected."""
        self.until("document.getElementById('status').dataset.done === 'true'")
        self.until("""[...document.querySelectorAll(".row[aria-selected=true] .name")].every(
            name => name.textContent === document.querySelector("#detail h2")?.textContent
        )""")

    def until(self, expression: str, argument: object = None) -> None:
        """Waits until an expression holds.

        Playwright's own wait_for_function evaluates inside the page, which its policy forbids.
        """
        deadline = time.monotonic() + 300
        while not self.page.evaluate(expression, argument):
            assert time.monotonic() < deadline, expression
            self.page.wait_for_timeout(20)

    def heading(self, key: str) -> None:
        """Waits until a sample is shown."""
        self.until("key => document.querySelector('#detail h2')?.textContent === key", key)


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(20_000)
    yield Tab(context.new_page())
    context.close()
