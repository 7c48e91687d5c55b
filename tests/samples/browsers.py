"""A browser for tests of pages: chromium, driven by Playwright; they are skipped where there is none.

A `conftest.py` imports the fixtures.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

OPTIONS = (
    "--no-sandbox --disable-gpu --enable-unsafe-swiftshader --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless chromium. Its driver keeps an event loop running, which other tests of the process must not meet."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=OPTIONS.split())
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A new page, on which no script may fail."""
    page = browser.new_page(viewport={"width": 1300, "height": 850})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda words: faults.append(words.text) if words.type == "error" else None)
    page.set_default_timeout(60_000)
    yield page
    page.close()
    assert faults == []
