"""Every name that public packages import from PyTorch's modules can be imported under `weft.as_torch`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).parents[1] / "samples" / "imported_names.txt"
IMPORTING = """
import weft; weft.as_torch.install()
import importlib, sys, warnings

warnings.simplefilter("ignore")

def is_there(module, name):
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True

for line in sys.stdin.read().splitlines():
    module, _, name = line.partition(":")
    if not is_there(module, name):
        print(line)
"""


def listed() -> Iterator[tuple[bool, str]]:
    """Whether a name is absent, and `module:name`, for each name of the list and each module."""
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        absent, (module, _, names) = line.startswith("- "), line.removeprefix("- ").partition(":")
        for name in names.split() or [""]:
            yield absent, f"{module}:{name}"


def test_names_that_packages_import() -> None:
    names = list(listed())
    sources = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join(filter(None, (sources, os.getenv("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-c", IMPORTING],
        input="\n".join(name for _, name in names),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    missing = set(run.stdout.split())
    gone = sorted(name for absent, name in names if not absent and name in missing)
    assert not gone, f"packages import them, and they are gone: {gone}"
    come = sorted(name for absent, name in names if absent and name not in missing)
    assert not come, f"they are there now: take the - away in {LIST.name}: {come}"
    assert len(names) > 800
