"""What `tools/wheels.py` lets pass, and the shares of the tests that it runs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import weft
from tool_modules import tool

ROOT = Path(__file__).resolve().parents[2]

WHEELS = tool("wheels")
SOURCES = [p for s in ("*.py", "*.pxd", "*.pyi", "py.typed") for p in (ROOT / "src").rglob(s)]


def wheel(
    folder: Path, version: str = weft.__version__, without: str = "", beside: str = ""
) -> Path:
    """A wheel with the package's files, but for those whose name ends so, and with one more."""
    path = folder / f"weft-{version}-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for source in SOURCES:
            name = source.relative_to(ROOT / "src").as_posix()
            if source.with_suffix(".pxd").exists() and source.suffix == ".py":
                archive.writestr(f"{name[:-3]}.cpython-311-x86_64-linux-gnu.so", "")
            if not (without and name.endswith(without)):
                archive.write(source, name)
        for level in WHEELS.LEVELS["x86_64"]:
            name = f"{WHEELS.ARCHIVES}/{level}.kernels"
            if not (without and name.endswith(without)):
                archive.writestr(name, "")
        if beside:
            archive.writestr(beside, "")
    return path


def test_a_whole_wheel_passes(tmp_path: Path) -> None:
    assert WHEELS.check_contents(wheel(tmp_path)) == weft.__version__


@pytest.mark.parametrize(
    "without",
    ["py.typed", "engine/ir/tape.pxd", "weft/__init__.pyi", "demo/cli.py", "avx2.kernels"],
)
def test_a_wheel_with_a_hole_is_refused(tmp_path: Path, without: str) -> None:
    with pytest.raises(WHEELS.WheelError, match=without):
        WHEELS.check_contents(wheel(tmp_path, without=without))


@pytest.mark.parametrize(
    "beside", ["weft/engine/ir/tape.c", "tests/conftest.py", "build/lib/a.py", "weft/x.tmp"]
)
def test_a_wheel_with_what_users_do_not_need_is_refused(tmp_path: Path, beside: str) -> None:
    with pytest.raises(WHEELS.WheelError, match=beside):
        WHEELS.check_contents(wheel(tmp_path, beside=beside))


def test_a_wheel_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WHEELS.WheelError, match=r"9\.9"):
        WHEELS.check_contents(wheel(tmp_path, version="9.9"))


def collected(*arguments: str) -> list[str]:
    """The tests of one file that pytest would run."""
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        [*command, *arguments, "tests/errors/test_errors.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_shares_divide_the_tests() -> None:
    shares = [collected("--share", f"{which}/3") for which in (1, 2, 3)]
    assert all(shares)
    assert sorted(sum(shares, [])) == sorted(collected())


@pytest.mark.parametrize("words", ["0/3", "4/3", "1", "a/b", "1/0"])
def test_a_share_that_is_none_is_refused(words: str) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--share", words]
    done = subprocess.run(
        [*command, "tests/errors/test_errors.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 4
    assert "1/10 for the first of ten" in done.stderr
