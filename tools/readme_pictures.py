"""Draws the pictures of the README's first program: what a step records as it grows, what one tree records, and what
sixteen ran as.

Run: python tools/readme_pictures.py [FOLDER], by default docs/pictures
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import growing_picture

import weft
from weft import debug

ROOT = Path(__file__).resolve().parents[1]
TREE = ((0, 1), (1, (0, 1)))
UPDATE = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"


def main(folder: Path) -> None:
    """Write the pictures."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    model, training = program.split("for step in")
    names: dict[str, Any] = {}
    exec(compile(model, "first.py", "exec"), names)
    weft.realize(*names["model"].parameters())
    of_loss = "\n" * (model.count("\n") + 2)  # the line where the program reads trees
    exec(compile(f"{of_loss}value = read(encode({TREE}))", "first.py", "exec"), names)
    debug.draw(names.pop("value"), str(folder / "one_tree.svg"))
    names["step"] = 0
    step = "\n" * model.count("\n") + "if True:  #" + training.partition("if step %")[0].rstrip()
    forward, _, _ = step.partition("    optimizer.zero_grad()")
    entries: list[Any] = []
    with weft.explain() as report:
        exec(compile(forward, "first.py", "exec"), names)
        entries = debug.collect_graph(names["loss"])
        exec(compile("\n" * forward.count("\n") + UPDATE, "first.py", "exec"), names)
    report.draw(str(folder / "sixteen_trees.svg"))
    dots = growing_picture.dots_of(entries)
    growing_picture.assign(dots, report.runs[0].batches)
    (folder / "growing.svg").write_text(growing_picture.svg(dots, report.runs[0].batches))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
