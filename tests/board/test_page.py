"""The page in a real browser: each view is opened and clicked through."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from runs import faulty_run, recorded, recurrent_run

import weft
from weft import nn
from weft.board.server import Server


def open_page(page: Any, board: Any, folder: Path, view: str) -> None:
    """Save a run as a page and open it at a view."""
    path = board.save(folder / "run.html")
    page.goto(f"file://{path}#{view}")
    page.wait_for_selector(f"body[data-shown={view}]")
    if view == "graph":
        page.wait_for_selector('.status:has-text("shown")')


def test_the_graph_is_searched_opened_and_explained(page: Any, tmp_path: Path) -> None:
    open_page(page, recurrent_run(), tmp_path, "graph")
    assert page.title().endswith("weft board")
    page.fill("input[type=search]", "tanh runs.py")
    page.click(".found button >> nth=0")
    panel = page.locator(".panel")
    panel.locator("h2", has_text="tanh").wait_for()
    assert "float32[4]" in panel.inner_text()
    assert "return (self.new(x) + self.old(h)).tanh()" in panel.locator(".here").inner_text()
    assert "operations as one" in panel.inner_text()
    page.select_option("select[aria-label=show]", "records")
    page.wait_for_selector('.panel h2:has-text("the step")')
    page.click("text=open all")
    page.locator(".words").focus()
    for key in ("f", "+", "-", "ArrowLeft"):
        page.keyboard.press(key)
    page.mouse.move(500, 400)
    page.mouse.wheel(0, -300)
    page.mouse.dblclick(500, 400)


def test_two_steps_are_compared(page: Any, tmp_path: Path) -> None:
    open_page(page, recurrent_run(), tmp_path, "graph")
    page.select_option("select[aria-label=beside]", "0")
    changes = page.locator(".changes")
    changes.locator("table").wait_for()
    assert "from step 0 to step 2" in changes.inner_text()
    row = changes.locator("tr", has_text=re.compile("tanh")).first.locator("td").all_inner_texts()
    assert (row[2], row[3]) == ("14", "24")
    assert page.locator(".pair .graph").count() == 2
    changes.locator("button").first.click()


def test_planted_faults_are_shown(page: Any, tmp_path: Path) -> None:
    board = faulty_run()
    open_page(page, board, tmp_path, "learning")
    bad = page.locator("#first-bad").inner_text()
    assert "step 13: log made a value that is not finite" in bad and "runs.py:" in bad
    dead = page.locator(".card", has_text="dead units").first
    assert dead.locator("td").all_inner_texts() == ["0.weight", "1"]
    assert page.locator(".uplot").count() >= 4
    page.click("#tab-memory")
    page.wait_for_selector("body[data-shown=memory]")
    leak = page.locator("#leaks").inner_text()
    assert "a list of 14, kept in faulty_run" in leak and "runs.py:" in leak
    page.click("#tab-graph")
    page.wait_for_selector("body[data-shown=graph]")


def test_words_of_the_program_are_never_html(page: Any, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module(hostile, nn.Linear(2, 2))

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return getattr(self, hostile)(x)

    model = Model()
    board = recorded(model, lambda step: model(weft.ones(2)).sum(), 2)
    open_page(page, board, tmp_path, "graph")
    page.fill("input[type=search]", "img")
    page.click(".found button >> nth=0")
    for view in ("learning", "memory", "graph"):
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"body[data-shown={view}]")
    assert page.locator("img").count() == 0
    assert hostile in page.inner_text("body")


def test_a_live_run_is_followed_and_outlives_the_page(page: Any) -> None:
    model = nn.Linear(3, 1)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(board: weft.board.Board) -> None:
        optimizer.zero_grad()
        model(weft.ones(4, 3)).square().mean().backward()
        optimizer.step()
        board._write()

    board = weft.board.start(model, share=1, port=0, quiet=True)
    page.goto(board.address)
    page.wait_for_selector("text=No graph yet")
    step(board)
    page.wait_for_selector('.status:has-text("shown")')
    assert page.inner_text(".state") == "live"
    board.stop()
    page.wait_for_selector("text=the run is over")
    page.goto("about:blank")
    assert board.step_number == 1
    board.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_window_shows_all(browser: Any, scheme: str, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 760}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    open_page(page, recurrent_run(steps=1), tmp_path, "graph")
    for view in ("graph", "learning", "memory"):
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"body[data-shown={view}]")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    page.close()


@pytest.mark.slow
def test_a_hundred_thousand_nodes_are_shown(page: Any, tmp_path: Path) -> None:
    x = weft.ones(2, requires_grad=True)
    layer = nn.Linear(2, 2)

    def loss_of(step: int) -> weft.Tensor:
        rows = [((x + n).tanh() * 2).exp().sum() for n in range(20_000)]
        return weft.stack(rows).sum() + layer(x).sum()

    board = recorded(layer, loss_of, 1)
    assert board.run.graphs[0]["nodes"] > 100_000
    open_page(page, board, tmp_path, "graph")
    page.select_option("select[aria-label=show]", "records")
    page.locator(".status", has_text=re.compile(r"10\d,\d{3} boxes shown")).wait_for()
    page.mouse.move(500, 400)
    for _ in range(5):
        page.mouse.wheel(0, -400)


def test_a_server_without_a_run_says_so(page: Any) -> None:
    from weft.board.run import Run

    server = Server(Run(program="train.py"), 0)
    page.goto(server.address)
    page.wait_for_selector("text=No graph yet")
    server.close()
