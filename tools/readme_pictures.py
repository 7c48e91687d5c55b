"""Draws the pictures of the README from its first program: what one tree records, and what sixteen ran as.

Run: python tools/readme_pictures.py [FOLDER], by default docs/pictures
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import weft
from weft import debug

ROOT = Path(__file__).resolve().parents[1]
TREE = ((0, 1), (1, (0, 1)))


def main(folder: Path) -> None:
    """Write both pictures."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    model, training = program.split("for step in")
    names: dict[str, Any] = {}
    exec(compile(model, "first.py", "exec"), names)
    weft.realize(*names["model"].parameters())
    debug.draw(names["read"](names["encode"](TREE)), str(folder / "one_tree.svg"))
    names["step"] = 0
    step = "\n" * model.count("\n") + "if True:  #" + training.partition("if step %")[0].rstrip()
    with weft.explain() as report:
        exec(compile(step, "first.py", "exec"), names)
    report.draw(str(folder / "sixteen_trees.svg"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
