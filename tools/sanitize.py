"""Builds the compiled modules with the address and undefined-behaviour sanitizers, in build/sanitize, and tests there.

python tools/sanitize.py tests/tensor tests/ops        # all modules; the first build takes a quarter of an hour
python tools/sanitize.py --only weft.engine.ir tests/ops   # these modules instrumented, the others as they are

Generated kernels are not instrumented. Stacks are not either: greenlet copies them. Tests that start Python with an
environment of their own fail, since the sanitizer has to be loaded first. Needs gcc.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "sanitize"
FLAGS = "-fsanitize=address,undefined -fno-omit-frame-pointer --param asan-stack=0"
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so")


def library(name: str) -> str:
    """Where gcc has a library."""
    command = [os.environ.get("CC", "gcc"), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(only: str) -> None:
    """Copy the tree and build it; what is built already and has not changed stays."""
    ignored = shutil.ignore_patterns("__pycache__", *([] if only else ["*.so", "_build_info.py"]))
    for part in ("src", "tests", "tools", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / part, TREE / part, dirs_exist_ok=True, ignore=ignored)
    for file in ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy2(file, TREE)
    environment = {**os.environ, "CFLAGS": FLAGS, "LDFLAGS": FLAGS}
    options = ["--only", only, "--force"] if only else []
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--debug", *options]
    subprocess.run(command, cwd=TREE, env=environment, check=True)


def test(arguments: list[str]) -> int:
    """Run pytest with the sanitizers loaded; a finding ends it."""
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(map(library, LIBRARIES)),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(TREE / "src"),
        "WEFT_CACHE_DIR": str(TREE / "cache"),
    }
    # Not what the process itself writes: a report of a sanitizer would be lost with it.
    options = ["-q", "--capture=sys", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=TREE, env=environment).returncode


def main() -> int:
    """Build and test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="instrument modules named so or below")
    parser.add_argument("tests", nargs="*", default=["tests"])
    options, others = parser.parse_known_args()
    build(options.only)
    return test([*options.tests, *others])


if __name__ == "__main__":
    sys.exit(main())
