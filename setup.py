"""The build: finds the modules that Cython compiles, compiles those that have changed, and installs them.

What is compiled is decided by the sources themselves (`weft._build.compiled.is_compiled_source`), how is told by
`tools/compile_modules.py`; everything else about the package stands in pyproject.toml. `--only weft.runtime` builds a
part. The hash of each source that was built goes into the generated `_build/info.py`, by which a stale build is
recognised. Then `tools/generate_stubs.py` writes the stubs of what has been built (decision 128).
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - setup.py may be run without pip
    sys.exit(f"weft needs Python 3.11 or newer, this is {sys.version.split()[0]}: name another")

import compileall
import errno
import filecmp
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path
from types import ModuleType

from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext, customize_compiler, new_compiler

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "weft"
BUILD = ROOT / "build"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

# What every recorded operation passes is compiled for speed. For the rest, inlining is what pays (decision 84).
HOT = tuple(
    f"weft.{package}."
    for package in (
        "engine.capi", "engine.ir", "engine.dispatch", "engine.frontend", "engine.replay", "engine.api",
        "engine.runtime", "engine.devices", "tensor", "optim",
    )
)  # fmt: skip
FAST = ("-O2",)
QUICK = (
    "-O1", "-finline-small-functions", "-fpartial-inlining", "-foptimize-sibling-calls", "-fstrict-aliasing",
)  # fmt: skip
DEBUG = ("-O1",)  # a third of the time to compile, for what is built to look for faults
NO_COMPILER = (
    "weft needs a C compiler to build its compiled modules: install gcc or clang "
    "(Debian: apt install gcc; macOS: xcode-select --install), or name one with CC=..."
)
NO_HEADERS = (
    "weft needs the headers of Python and of the C library to build its compiled modules, and {compiler} does not find "
    "them: install them (Debian: apt install python3-dev libc6-dev; Fedora: python3-devel glibc-headers)"
)
NOT_WRITABLE = (
    "weft cannot build here: {error}\n"
    "  expected  a folder that can be written, with room for the build (up to 500 MB)\n"
    "  got       {folder}\n"
    "  fix       make room, or copy the checkout to a folder of yours; a wheel needs no build"
)
NO_KERNELS = (
    "weft: built without kernels (decision 109): what programs begin with is compiled when they run.\n"
    "  fix       install numpy, scipy, llvmlite and greenlet where weft is built, or build it isolated"
)
NEEDED_TO_RUN = ("numpy", "scipy", "llvmlite", "greenlet")
NO_STUBS = (
    "weft: built without stubs for type checkers (decision 128), which programs do not need; {then}"
)
INSTALL = (
    "a build where numpy, scipy, llvmlite and greenlet are installed makes them, as the next `make`"
)
MEND = "mend the error above, which came where the package was imported, and build again"
MOST_SECONDS_FOR_STUBS = 5 * 60  # two are usual
MOST_SECONDS_FOR_KERNELS = 20 * 60  # about a minute is usual (decision 109)
TAKES_TOO_LONG = "weft: {tool} was stopped after {seconds} s"
INTERRUPTED = "weft: interrupted after {done} modules; the same command goes on from there"


def load(path: Path) -> ModuleType:
    """A module by its path: importing weft would need the build that is being made."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


rules = load(PACKAGE / "_build/compiled.py")
compiling = load(ROOT / "tools" / "compile_modules.py")
stubs = load(ROOT / "tools" / "generate_stubs.py")


def find_modules(debug: bool) -> list[compiling.Module]:
    """The modules to be compiled, with their hashes and flags."""
    hashes = rules.SourceHashes(PACKAGE)
    return [
        compiling.Module(name, path.relative_to(ROOT), hashes.of(path), flags_of(name, debug))
        for name, path in rules.compiled_sources(PACKAGE).items()
    ]


def flags_of(name: str, debug: bool) -> tuple[str, ...]:
    """How hard the C compiler tries."""
    if debug:
        return DEBUG
    return FAST if name.startswith(HOT) else QUICK


def check_compiler() -> None:
    """Say what is missing before distutils fails: with an exec error, or with a page for every module."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    names = [word for word in command if not word.startswith("-") and "=" not in word]
    if not names or shutil.which(names[0]) is None:
        raise SystemExit(NO_COMPILER)
    include = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    given = shlex.split(f"{os.environ.get('CPPFLAGS', '')} {os.environ.get('CFLAGS', '')}")
    program = "#include <Python.h>\n"
    look = [*command, *given, *include, "-E", "-x", "c", "-", "-o", os.devnull]
    if subprocess.run(look, input=program, text=True, capture_output=True).returncode:
        raise SystemExit(NO_HEADERS.format(compiler=names[0]))


def toolchain(command: build_ext) -> compiling.Toolchain:
    """The C compiler as distutils configures it: from CC, CFLAGS, LDFLAGS and what Python itself was built with."""
    compiler = new_compiler(compiler=command.compiler, force=command.force)
    customize_compiler(compiler)
    include = dict.fromkeys(sysconfig.get_path(name) for name in ("include", "platinclude"))
    return compiling.Toolchain(compiler, tuple(include))


class BuildExtensions(build_ext):
    """Compile what changed, install it atomically, record the source hashes."""

    user_options = [
        *build_ext.user_options,
        ("only=", None, "build only modules named so or below"),
    ]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.only = ""

    def run(self) -> None:
        check_compiler()
        os.chdir(ROOT)
        try:
            with compiling.exclusive(BUILD):
                self.build()
        except OSError as error:
            if error.errno not in (
                errno.EACCES,
                errno.EPERM,
                errno.EROFS,
                errno.ENOSPC,
                errno.EDQUOT,
            ):
                raise
            folder = error.filename or BUILD
            raise SystemExit(NOT_WRITABLE.format(error=error, folder=folder)) from None
        except compiling.BuildInterruptedError as error:
            raise SystemExit(INTERRUPTED.format(done=error)) from None

    def build(self) -> None:
        """Compile what is missing, install everything, say what became of it."""
        begun = time.monotonic()
        modules = [m for m in find_modules(self.debug) if m.name.startswith(self.only)]
        cache = compiling.ObjectCache.open(BUILD / "objects", toolchain(self))
        missing = len(cache.missing(modules))
        failed = compiling.compile_missing(cache, modules, compiling.worker_count(self.parallel))
        built = [module for module in modules if module.name not in failed]
        self.install(cache, built)
        cache.prune(built)
        if not (failed or self.only):
            write_stubs(ROOT / "src" if self.inplace else Path(self.build_lib))
        if self.inplace:  # a first step imports what is interpreted, and need not translate it
            compileall.compile_dir(PACKAGE, quiet=2)
        for name, words in failed.items():
            print(f"\n{name}:\n{words}", file=sys.stderr)
        if failed:
            raise SystemExit("weft: these modules failed to compile: " + ", ".join(failed))
        if missing:
            print(
                f"weft: compiled {missing} of {len(modules)} modules in {time.monotonic() - begun:.0f} s"
            )

    def install(self, cache: compiling.ObjectCache, built: list[compiling.Module]) -> None:
        """Objects go beside the sources or under build_lib; those of modules that are gone, go."""
        folder = ROOT / "src" if self.inplace else Path(self.build_lib)
        sources = rules.compiled_sources(PACKAGE)
        for module in built:
            replace_by_copy(cache.path(module), object_path(folder, module.name))
        wanted = {object_path(folder, name) for name in sources}
        for path in set((folder / "weft").rglob(f"*{SUFFIX}")) - wanted:
            path.unlink()
        done = {module.name: module.hash for module in built}
        kept = {k: v for k, v in rules.built_hashes().items() if k in sources and k not in done}
        write_build_info(folder / "weft", dict(sorted((kept | done).items())))


class Build(build):
    """What a wheel is made of."""

    sub_commands = [*build.sub_commands, ("build_kernels", None)]


class BuildKernels(Command):
    """Compile the kernels that programs begin with into what has been built. A checkout has `make kernels`."""

    description = "compile the kernels that programs begin with"
    user_options: list[tuple[str, str, str]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        if self.editable_mode:
            return
        tool = ROOT / "tools" / "ship_kernels.py"
        command = [sys.executable, str(tool), "--package", str(self.build_lib)]
        if not succeeds(command, MOST_SECONDS_FOR_KERNELS):
            print(NO_KERNELS, file=sys.stderr)

    def get_source_files(self) -> list[str]:
        return ["tools/ship_kernels.py", "tools/first_programs.py"]

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


def succeeds(command: list[str], seconds: float) -> bool:
    """Run a command that imports weft with its defaults, whatever the builder has set, for so long at most."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    try:
        return subprocess.run(command, env=environment, timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        print(TAKES_TOO_LONG.format(tool=command[1], seconds=seconds), file=sys.stderr)
        return False


def write_stubs(folder: Path) -> None:
    """Write the stubs of the package in a folder anew where a source has changed; say so where that fails."""
    sources = (path for ending in ("py", "pxd") for path in (folder / "weft").rglob(f"*.{ending}"))
    changed = max(path.stat().st_mtime for path in sources)
    written = [folder / name for name in stubs.STUBS]
    if all(path.exists() and path.stat().st_mtime > changed for path in written):
        return
    tool = ROOT / "tools" / "generate_stubs.py"
    command = [sys.executable, str(tool), "--package", str(folder)]
    runs = all(importlib.util.find_spec(name) for name in NEEDED_TO_RUN)
    if not runs or not succeeds(command, MOST_SECONDS_FOR_STUBS):
        print(NO_STUBS.format(then=MEND if runs else INSTALL), file=sys.stderr)


def object_path(folder: Path, name: str) -> Path:
    """Where a module's object is imported from."""
    return folder / (name.replace(".", os.sep) + SUFFIX)


def replace_by_copy(built: Path, target: Path) -> None:
    """Replace by rename, and only what differs: a running process keeps its mapped file."""
    if target.exists() and filecmp.cmp(built, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    shutil.copyfile(built, temporary)
    temporary.chmod(0o755)
    os.replace(temporary, target)


def write_build_info(package: Path, hashes: dict[str, str]) -> None:
    """Record the hash of each source that was built."""
    lines = "".join(f'    "{name}": "{value}",\n' for name, value in hashes.items())
    title = '"""Written by setup.py: the hash of each compiled source."""'
    text = f"{title}\n\nSOURCE_HASHES = {{\n{lines}}}\n"
    target, temporary = package / "_build" / "info.py", package / "_build" / "info.tmp"
    if target.exists() and target.read_text() == text:
        return
    temporary.write_text(text)
    os.replace(temporary, target)


setup(
    ext_modules=[
        Extension(name, [str(path.relative_to(ROOT))])
        for name, path in rules.compiled_sources(PACKAGE).items()
    ],
    cmdclass={"build": Build, "build_ext": BuildExtensions, "build_kernels": BuildKernels},
)
