"""The site as `make docs` has built it, in a real browser: what users look for is found, and pages fit their window.

Skipped where it has not been built since its pages changed.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "docs"
SOURCES = ("docs/*.md", "docs/guide/*.md", "docs/conf.py", "docs/*.js", "examples/gallery/*")
SHOWN = [
    "index.html",
    "guide/first_steps.html",
    "guide/from_pytorch.html",
    "gallery/index.html",
    "gallery/molecules.html",
    "reference/weft.nn.html",
    "results.html",
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the site is served."""
    built = SITE / "searchindex.js"
    newest = max(path.stat().st_mtime for each in SOURCES for path in ROOT.glob(each))
    if not built.exists() or built.stat().st_mtime < newest:
        pytest.skip("make docs has not run since the pages changed")
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Question(NamedTuple):
    """What somebody types, the page that answers it, and words of the answer there."""

    typed: str
    page: str
    answer: str


QUESTIONS = [
    Question("sequences of variable length", "guide/batching.html", "weft.map"),
    Question("tree recursion", "guide/first_steps.html", "encode"),
    Question("loss is nan", "guide/looking_inside.html", "detect_anomaly"),
    Question("out of memory", "guide/memory.html", "set_memory_budget"),
    Question("custom gradient", "guide/custom.html", "autograd.Function"),
    Question("slow loop", "guide/performance.html", "read"),
    Question("save a model", "guide/questions.html", "weft.save"),
    Question("reproducible", "guide/exactness.html", "same bits"),
    Question("gpu", "guide/questions.html", "CPU"),
    Question("port PyTorch program", "guide/from_pytorch.html", "weft run train.py"),
    Question("memory leak", "guide/memory.html", "memory_report"),
    Question("convert pytorch code", "guide/from_pytorch.html", "weft run train.py"),
    Question("debugging", "debugging.html", "why_grad"),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.typed)
def test_what_users_ask_is_answered_within_two_clicks(
    page: Any, address: str, question: Question
) -> None:
    """The first click is on one of the first three results, the second on a link of the page that it leads to."""
    page.goto(f"{address}index.html")
    page.fill("input[name=q]", question.typed)
    page.press("input[name=q]", "Enter")
    page.wait_for_function(
        "/finished|did not/i.test(document.querySelector('.search-summary')?.innerText)"
    )
    results = page.locator("#search-results ul.search > li > a")
    first = [results.nth(n).get_attribute("href") for n in range(min(3, results.count()))]
    direct = [n for n, target in enumerate(first) if target.startswith(question.page)]
    if direct:
        results.nth(direct[0]).click()
    else:
        through = [n for n, target in enumerate(first) if target.startswith("guide/")]
        assert through, f"{question.typed}: {first}"
        results.nth(through[0]).click()
        page.wait_for_selector("article")
        page.locator(f"article a[href*='{question.page.rpartition('/')[2]}']").first.click()
    page.wait_for_url(f"**/{question.page}*")
    assert question.answer in page.locator("article").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_pages_fit_their_window_and_can_be_read(
    browser: Any, address: str, width: int, scheme: str
) -> None:
    """Nothing is wider than the window, no picture is missing, and text stands out from what is behind it."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    for name in SHOWN:
        page.goto(address + name)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), name
        missing = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(missing) == [], name
        assert contrast(page.evaluate(COLOURS)) >= 4.5, name  # what WCAG asks for text
    page.close()


COLOURS = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const text = document.querySelector("article p");
  return [getComputedStyle(text).color, getComputedStyle(document.body).backgroundColor].map(numbers);
}"""


def contrast(colours: list[list[float]]) -> float:
    """The ratio of the luminances of two colours, as WCAG defines it."""
    lighter, darker = sorted((luminance(colour) for colour in colours), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
