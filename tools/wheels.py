"""Wheels: what users install, built as they are published and tested as users meet them. `make wheels`

A source distribution is made of the checkout, from it alone a wheel for every Python at hand, each in a folder of its
own: nothing of the checkout's build can leak in. Where containers run, cibuildwheel builds in those of manylinux;
elsewhere this machine's compiler does, and auditwheel names the oldest system that the result fits. Each wheel is then
installed where there is no compiler, no source and no folder but its own: it has to import, run the demo, and pass the
tests of its share. One line per wheel says what came out.

`--python 3.12 /opt/python/bin/python3` names the Pythons, `--test WHEEL` only tests one, `--share 1/1` with all tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from generate_stubs import STUBS

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
OBJECTS = (
    ROOT / "build" / "wheels"
)  # what has been compiled, by Python: found again under the hash of its sources
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
TESTED_WITH = ("pytest", "hypothesis", "mpmath", "einops", "opt_einsum", "optree", "scikit-learn")
CONTAINERS = ("docker", "podman")
IMPORTS = 5  # of which the fastest counts
NOT_IN_WHEELS = re.compile(r"\.(c|o|cpp|html|tmp)$|(^|/)(tests|build|__pycache__|\.\w+)/")
ABOUT = """
import json, os, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(json.dumps([sys.implementation.name, version, os.path.realpath(sys.executable), headers]))
"""
LEVELS = {
    "x86_64": ("avx2", "avx512"),
    "aarch64": ("neon",),
    "arm64": ("neon",),
}  # by the end of a wheel's name
ARCHIVES = "weft/engine/devices/cpu/shipped"
KERNELS = """
from weft.engine.devices.cpu.codegen_hash import revision
from weft.engine.devices.cpu.llvm.target import host
from weft.engine.devices.cpu.kernel_files.shipped_kernels import open_for
print(len(open_for(host().name, revision()) or ()))
"""
IMPORT = """
import time
start = time.perf_counter()
import weft
print(time.perf_counter() - start, weft.__version__, weft.__file__)
"""


class WheelError(Exception):
    """A wheel is not what it should be, or a command has failed."""


@dataclass
class Result:
    """A line of the table."""

    python: str
    wheel: Path
    build_seconds: float = 0.0
    import_seconds: float = 0.0
    installed: int = 0
    demo: str = "no"
    tests: str = "no"


def main() -> int:
    """The exit status: 0 where every wheel is sound."""
    options = arguments()
    try:
        if options.test:
            results = [Result(sys.executable, options.test)]
        else:
            results = build_all(source_distribution(), options.python)
    except WheelError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    sound = [is_sound(result, options) for result in results]
    print(table(results))
    return 0 if all(sound) else 1


def arguments() -> argparse.Namespace:
    """The command line."""
    words = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--python", nargs="+", metavar="3.X or PATH", help="default: all at hand")
    parser.add_argument("--test", type=Path, metavar="WHEEL", help="only test this one, here")
    parser.add_argument("--share", default="1/10", help="of the tests (default 1/10)")
    parser.add_argument("--find-links", metavar="FOLDER", help="passed on to pip")
    return parser.parse_args()


def run(*command: object, quiet: bool = False, **how: object) -> str:
    """What a command prints; it has to succeed."""
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True) if not quiet else None
    done = subprocess.run(words, text=True, stdout=-1, stderr=-2, stdin=-3, **how)  # type: ignore[call-overload]
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-40:])
        raise WheelError(f"exit status {done.returncode} of {' '.join(words)}\n{tail}")
    return str(done.stdout)


# The Pythons.


def about(python: object) -> tuple[str, str, str, bool] | None:
    """Implementation, version, path, and whether headers are there; None for what is no Python."""
    try:
        said = run(python, "-I", "-c", ABOUT, quiet=True)
        return tuple(json.loads(said))  # type: ignore[return-value]
    except (WheelError, OSError, json.JSONDecodeError):
        return None


def version_of(python: object) -> str:
    found = about(python)
    if found is None:
        raise WheelError(f"{python} is not a Python that runs")
    return found[1]


def at_hand() -> dict[str, str]:
    """The path of a Python of each supported version: one that has headers, where there is one."""
    found: dict[str, str] = {}
    installed = Path.home().glob(".pyenv/versions/*/bin/python")
    on_path = (shutil.which(f"python{version}") for version in SUPPORTED)
    for candidate in [*filter(None, on_path), *sorted(installed)]:
        known = about(candidate)
        if known and known[0] == "cpython" and known[1] in SUPPORTED and known[3]:
            found.setdefault(known[1], known[2])
    return dict(sorted(found.items()))


def chosen(named: list[str] | None) -> dict[str, str]:
    """The Pythons that are named, by version or path; all at hand where none is."""
    known = at_hand()
    if named is None:
        missing = [version for version in SUPPORTED if version not in known]
        print(f"wheels for Python {', '.join(known)}; not at hand: {', '.join(missing) or 'none'}")
        return known
    wanted = {}
    for name in named:
        if name in SUPPORTED and name not in known:
            raise WheelError(f"no Python {name} with headers on PATH or in ~/.pyenv: name its path")
        path = known.get(name, name)
        wanted[version_of(path)] = path
    return wanted


# Building.


def source_distribution() -> Path:
    """The archive that everything is built from."""
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("weft-*"):
        old.unlink()
    with (
        tempfile.TemporaryDirectory() as away
    ):  # where `build` is the tool and not our folder of this name
        run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT, cwd=away)
    (source,) = DIST.glob("weft-*.tar.gz")
    return source


def build_all(source: Path, named: list[str] | None) -> list[Result]:
    """A wheel in dist/ for each Python."""
    pythons = chosen(named)
    in_containers = sys.platform == "linux" and any(map(answers, CONTAINERS))
    build = build_in_container if in_containers else build_here
    results = []
    for version, python in pythons.items():
        begun = time.monotonic()
        wheel = build(source, version, python)
        results.append(Result(python, wheel, time.monotonic() - begun))
    return results


def answers(engine: str) -> bool:
    """Whether containers can be run by it."""
    if shutil.which(engine) is None:
        return False
    return not subprocess.run([engine, "info"], capture_output=True, check=False).returncode


def build_in_container(source: Path, version: str, python: str) -> Path:
    """By cibuildwheel, as pyproject.toml tells it, for this kind of machine."""
    engine = next(filter(answers, CONTAINERS))
    settings = {
        "CIBW_BUILD": f"cp{version.replace('.', '')}-manylinux_*",
        "CIBW_ARCHS": "native",
        "CIBW_CONTAINER_ENGINE": engine,
        "CIBW_TEST_SKIP": "*",  # tested here, in the next step
    }
    command = (sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--output-dir", DIST)
    run(*command, source, env=os.environ | settings)
    return newest(DIST, version)


def build_here(source: Path, version: str, python: str) -> Path:
    """By this machine's compiler, in a folder that is thrown away; objects are kept under the hash of their sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        (tree,) = folder.glob("weft-*")
        objects = OBJECTS / version
        objects.mkdir(parents=True, exist_ok=True)
        (tree / "build").mkdir()
        (tree / "build" / "objects").symlink_to(objects)
        pip = (sys.executable, "-m", "pip", "--python", python, "wheel", "--quiet", "--no-deps")
        run(*pip, "--no-cache-dir", "--wheel-dir", folder / "made", tree)
        return repair(newest(folder / "made", version))


def newest(folder: Path, version: str) -> Path:
    """The wheel for a version of Python in a folder."""
    (wheel,) = folder.glob(f"weft-*-cp{version.replace('.', '')}-*.whl")
    return wheel


def repair(wheel: Path) -> Path:
    """Into dist/, under the name of the oldest system that its symbols are found on."""
    if sys.platform != "linux":
        return Path(shutil.copy(wheel, DIST))
    tools = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    auditwheel = (sys.executable, "-m", "auditwheel")
    run(*auditwheel, "repair", "--strip", "--wheel-dir", DIST, wheel, env=tools)
    (repaired,) = DIST.glob(f"{'-'.join(wheel.name.split('-')[:4])}-*.whl")
    return repaired


# Testing.


def is_sound(result: Result, options: argparse.Namespace) -> bool:
    """Whether the wheel passes; what it fails is said, and the next one is looked at."""
    try:
        check(result, options)
    except WheelError as error:
        print(f"wheels: {result.wheel.name}: {error}", file=sys.stderr)
        return False
    return True


def check(result: Result, options: argparse.Namespace) -> None:
    """Install the wheel where there is nothing else, and use it."""
    wheel, python = result.wheel.resolve(), result.python
    result.python = version_of(python)
    version = check_contents(wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries, alone = isolated(folder, python)
        here = {"env": alone, "cwd": folder}
        pip = (
            binaries / "python",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
        )
        links = ("--find-links", options.find_links) if options.find_links else ()
        run(*pip, *links, f"{wheel}[demo,files]", **here)
        result.installed = size_of(binaries.parent)
        result.import_seconds = check_import(binaries / "python", version, here)
        if run(binaries / "python", "-c", KERNELS, quiet=True, **here).strip() == "0":
            raise WheelError("its kernels are of other sources than its own, or none")
        run(binaries / "weft", "demo", "--short", "--out", folder / "demo", **here)
        result.demo = "yes"
        run(*pip, *links, *TESTED_WITH, **here)
        result.tests = check_tests(binaries / "python", options.share, folder, here)


def check_contents(wheel: Path) -> str:
    """The version that a wheel's name says, once what it holds is what it should."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        told = archive.read("weft/__init__.py").decode()
    sources = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.p[xy]*")
    }
    wanted = {name for name in sources if name.endswith((".pxd", ".py"))}
    wanted |= {"weft/py.typed", *STUBS}
    family = next((family for family in LEVELS if wheel.stem.endswith(family)), "")
    wanted |= {f"{ARCHIVES}/{level}.kernels" for level in LEVELS.get(family, ())}
    stray = [name for name in names if NOT_IN_WHEELS.search(name)]
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    uncompiled = [name for name in names if name.endswith(".pxd") and name[:-4] + ".py" in names]
    missing = [*(wanted - set(names)), *(n for n in uncompiled if n[:-4] not in compiled)]
    version = wheel.name.split("-")[1]
    if stray or missing or f'__version__ = "{version}"' not in told:
        raise WheelError(
            f"{wheel.name}: too much: {stray[:5]}, missing: {sorted(missing)[:5]}, version {version}"
        )
    return version


def isolated(folder: Path, python: str) -> tuple[Path, dict[str, str]]:
    """The programs of a new environment in a folder, and what they find in theirs: themselves, and no compiler."""
    run(python, "-m", "venv", folder / "venv")
    binaries = folder / "venv" / "bin"
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CC", "CFLAGS", "LDFLAGS", "PYTHONPATH", "VIRTUAL_ENV")
        and not name.startswith("CIBW")
    }
    return binaries, kept | {"PATH": str(binaries), "XDG_CACHE_HOME": str(folder / "cache")}


def size_of(environment: Path) -> int:
    """Bytes of what has been installed, but for pip itself."""
    files = (p for p in environment.glob("lib/python*/site-packages/**/*") if p.is_file())
    return sum(p.stat().st_size for p in files if "/pip/" not in str(p))


def check_import(python: Path, version: str, here: dict[str, object]) -> float:
    """Seconds that `import weft` takes at best."""
    lines = [run(python, "-c", IMPORT, quiet=True, **here).split() for _ in range(IMPORTS)]
    for _, told, place in lines:
        if told != version or not Path(place).is_relative_to(python.parent.parent.resolve()):
            raise WheelError(f"imported version {told} from {place}, not the wheel's {version}")
    return min(float(line[0]) for line in lines)


def check_tests(python: Path, share: str, folder: Path, here: dict[str, object]) -> str:
    """How many tests of the share passed; only the tests are there, not what they test."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--share", share, **here)
    found = re.findall(r"(\d+) (passed|failed|skipped)", said.splitlines()[-1])
    return ", ".join(f"{count} {word}" for count, word in found)


def table(results: list[Result]) -> str:
    """One line per wheel."""
    rows = [("Python", "wheel", "size", "built in", "installed", "import", "demo", "tests")]
    for result in results:
        size = f"{result.wheel.stat().st_size / 1e6:.1f} MB"
        built = f"{result.build_seconds:.0f} s" if result.build_seconds else "-"
        installed = f"{result.installed / 1e6:.0f} MB"
        times = f"{result.import_seconds * 1e3:.0f} ms"
        row = (
            result.python,
            result.wheel.name,
            size,
            built,
            installed,
            times,
            result.demo,
            result.tests,
        )
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
