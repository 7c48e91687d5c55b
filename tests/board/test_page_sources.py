"""The page that is shipped is what its sources build to; its lock file names the public registry only."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "board"
# As vite.config.ts has them.
NAMES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "src",
)


def test_the_page_was_built_from_these_sources() -> None:
    files = [
        p
        for name in NAMES
        for p in ([SOURCES / name] if (SOURCES / name).is_file() else (SOURCES / name).rglob("*"))
    ]
    found = hashlib.sha256()
    for name in sorted(path.relative_to(SOURCES).as_posix() for path in files if path.is_file()):
        found.update(name.encode() + b"\0" + (SOURCES / name).read_bytes())
    page = (ROOT / "src/weft/board/page.html").read_text()
    built = re.search(r'<meta name="sources" content="(\w+)">', page)
    assert built is not None and built[1] == found.hexdigest(), "npm ci && npm run build in board/"


def test_the_page_is_alone() -> None:
    page = (ROOT / "src/weft/board/page.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)
    assert "unsafe" not in page.partition("<style>")[0]


def test_the_lock_file_names_the_public_registry_only() -> None:
    packages = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    hosts = {entry["resolved"].split("/")[2] for entry in packages.values() if "resolved" in entry}
    assert hosts <= {"registry.npmjs.org"}
