"""Draws the pictures of the board in the documentation: each view, of the runs that the tests of the page look at.

Run: python tools/board_pictures.py [FOLDER] [--all], by default docs/pictures. Needs chromium and Playwright. With
--all every view of every run is drawn, light and dark, wide and narrow, to be looked at.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "board"), str(ROOT / "tests" / "samples")]


VIEWS = ("graph", "time", "learning", "memory")
RUNS = {
    "tree": "tree_run",
    "gpt": "gpt_run",
    "faults": "faulty_run",
    "wide": "wide_run",
}  # of `runs` in tests/board
# Of the documentation: name, run, view.
DOCUMENTED = (
    ("board_graph", "tree", "graph"),
    ("board_time", "gpt", "time"),
    ("board_learning", "faults", "learning"),
    ("board_memory", "faults", "memory"),
    ("board_peak", "gpt", "memory"),
)
CHOSEN = "sigmoid"  # what the search in the graph looks for
WIDE, NARROW = {"width": 1300, "height": 850}, {"width": 400, "height": 800}


def shown(page: Any, path: Path, view: str) -> None:
    """Open a view of a saved run, and choose something in it."""
    page.goto(f"file://{path}#{view}")
    page.reload()
    page.wait_for_selector(f"body[data-shown={view}]")
    if view == "graph":
        page.wait_for_selector('.status:has-text("shown")')
        page.locator("button:has-text('open all')").click()
        page.wait_for_timeout(1500)
        page.fill("input[type=search]", CHOSEN)
        found = page.locator(f"text=/^{CHOSEN} × /")
        if found.count():
            found.first.click()
    if view == "time":
        page.locator(".timeline").focus()
        page.keyboard.press("f")
        page.locator("#by-line button, .timeline").first.click(position={"x": 500, "y": 60})
    page.wait_for_timeout(1200)


def draw(chromium: Any, folder: Path, every: bool) -> None:
    """Write the pictures."""
    import runs

    with tempfile.TemporaryDirectory() as saved:
        wanted = RUNS if every else {name: RUNS[name] for name in {run for _, run, _ in DOCUMENTED}}
        paths = {
            name: Path(getattr(runs, make)().save(Path(saved) / f"{name}.html"))
            for name, make in wanted.items()
        }
        if not every:
            page = chromium.new_page(viewport=WIDE)
            for name, run, view in DOCUMENTED:
                shown(page, paths[run], view)
                page.screenshot(path=str(folder / f"{name}.png"))
            return
        for (name, path), scheme, size in itertools.product(
            paths.items(), ("light", "dark"), (WIDE, NARROW)
        ):
            page = chromium.new_page(viewport=size, color_scheme=scheme)
            page.set_default_timeout(60_000)
            for view in VIEWS:
                shown(page, path, view)
                page.screenshot(path=str(folder / f"{name}_{view}_{scheme}_{size['width']}.png"))
            page.close()


def main() -> None:
    """Draw what was asked for."""
    from playwright.sync_api import sync_playwright

    from browsers import OPTIONS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=OPTIONS.split()
        )
        draw(chromium, options.folder, options.all)
        chromium.close()


if __name__ == "__main__":
    main()
