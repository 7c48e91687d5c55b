"""The page in a real browser: each view is opened and clicked through."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from runs import faulty_run, gpt_run, recorded, recurrent_run, tree_run, wide_run

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


def part(board: Any, name: str) -> Any:
    """A part of a run; of time the newest."""
    if name.startswith("time/"):
        name = f"time/{board.run.times[-1]['id']}"
    return json.loads(board.run.get(name))


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
    for view in ("time", "learning", "memory", "graph"):
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
    for view in ("graph", "time", "learning", "memory"):
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"body[data-shown={view}]")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    page.close()


@pytest.mark.slow
def test_a_hundred_thousand_nodes_are_shown(page: Any, tmp_path: Path) -> None:
    board = wide_run()
    assert board.run.graphs[0]["nodes"] > 100_000
    open_page(page, board, tmp_path, "graph")
    page.select_option("select[aria-label=show]", "records")
    page.locator(".status", has_text=re.compile(r"10\d,\d{3} boxes shown")).wait_for()
    page.mouse.move(500, 400)
    page.locator(".boxes:visible").wait_for()
    for _ in range(5):
        page.mouse.wheel(0, -400)
    page.locator(".boxes:visible").wait_for()  # once it stands still
    page.click("#tab-time")
    page.wait_for_selector("body[data-shown=time]")
    assert int(page.get_attribute(".time-view", "data-events")) > 100


@pytest.mark.parametrize("run", [tree_run, gpt_run], ids=["tree", "gpt"])
def test_each_view_of_a_model_is_clicked_through(page: Any, run: Any, tmp_path: Path) -> None:
    open_page(page, run(), tmp_path, "graph")
    page.select_option("select[aria-label=show]", "records")
    page.click("text=open all")
    page.locator(".status", has_text="shown").wait_for()
    page.select_option("select[aria-label=colour]", "gradient")
    page.select_option("select[aria-label=beside]", "0")
    page.locator(".changes h2").wait_for()
    page.click("#tab-time")
    page.wait_for_selector("body[data-shown=time]")
    assert "kernels" in page.inner_text(".phases")
    assert page.locator("#by-line .here").count() > 1
    assert page.locator("#by-module tbody tr").count() > 1
    for view in ("learning", "memory"):
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"body[data-shown={view}]")
        assert page.locator(".card").count() > 1
    peak = page.locator("#peak")
    assert "spilled: nothing" in peak.inner_text() and "reused:" in peak.inner_text()
    peak.locator("td button").first.click()
    assert peak.locator(".source .here").count() == 1


def test_a_bar_leads_to_its_operations_lines_and_ir(page: Any, tmp_path: Path) -> None:
    """From the step's flush down to a kernel, by the keys and by links."""
    model = nn.Linear(4, 4)
    x = weft.rand(8, 4)
    board = recorded(model, lambda step: (model(x).sigmoid() * 2).square().sum(), 12)
    open_page(page, board, tmp_path, "time")
    panel = page.locator(".time-view .side")
    page.locator(".timeline").focus()
    page.keyboard.press("ArrowDown")
    panel.locator("h2", has_text="Linear").wait_for()
    assert "module" in panel.inner_text()
    kernels = [e for e in part(board, "time/11")["kernels"] if "sigmoid" in str(e)]
    assert kernels
    page.evaluate("document.querySelector('.time-view').scrollTop = 0")
    for _ in range(200):  # from bar to bar until one is a kernel's
        if panel.locator("pre.ir", has_text="sigmoid").count():
            break
        page.keyboard.press("]")
    assert "its operations" in panel.inner_text()
    assert "store" in panel.locator("pre.ir").inner_text()
    panel.locator("table button", has_text="runs.py").or_(
        panel.locator("table button", has_text="test_page.py")
    ).first.click()
    assert "sigmoid" in panel.locator("table .here").first.inner_text()


def test_a_server_without_a_run_says_so(page: Any) -> None:
    from weft.board.run import Run

    server = Server(Run(program="train.py"), 0)
    page.goto(server.address)
    page.wait_for_selector("text=No graph yet")
    server.close()
