"""Compile Cython modules in parallel, with a content-addressed cache of what has been compiled.

`compile_missing` takes modules (name, source, hash) and gives a shared object for each, in an `ObjectCache`. Its name
holds the hash of everything that decides what is in it: the source, the declarations that it cimports, the
flags, the compiler, Cython, the interpreter. So one tree compiles nothing twice: not for a second installation, not on
the way back from another branch, not after an interrupt. Which modules there are, and where objects are installed, is
left to setup.py.

Each module is translated and compiled in a process of its own, the largest first, as many at a time as there are
processors. A module that fails does not hold up the others. An object appears under its name when it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import hashlib
import importlib.metadata
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "binding": True,
}
# No -march=native: a wheel runs on other machines. No contraction: a * b + c rounds twice.
COMPILE_ARGS = ("-g0", "-ffp-contract=off", "-Wno-unreachable-code", "-Wno-unused-function")
LINK_ARGS = ("-pthread",)
KEPT_PER_MODULE = 4  # objects of other branches, of a sanitized build
BYTES_PER_MODULE = 3 << 20  # C source, object and shared object, at the largest
REPORT_SECONDS = 10.0  # between lines of progress where a line cannot be written over
INTERRUPTED = 130  # the exit status of a process that SIGINT ended


@dataclass(frozen=True)
class Module:
    """A module to be compiled: `hash` stands for its source and all declarations that this cimports."""

    name: str
    source: Path  # relative to the root of the tree
    hash: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Toolchain:
    """What turns sources into objects: the C compiler of distutils, and everything that its results depend on."""

    compiler: Any
    include: tuple[str, ...]
    directives: dict[str, Any] = field(default_factory=lambda: dict(DIRECTIVES))

    def fingerprint(self) -> str:
        """What goes into the name of each object beside the module itself."""
        commands = (*self.compiler.compiler_so, *self.compiler.linker_so)
        version = subprocess.run(
            [self.compiler.compiler_so[0], "--version"], capture_output=True, text=True
        )
        said = (
            *commands, version.stdout, importlib.metadata.version("Cython"), sysconfig.get_config_var("EXT_SUFFIX"),
            sys.version, *COMPILE_ARGS, *LINK_ARGS, repr(sorted(self.directives.items())),
        )  # fmt: skip
        return hashlib.sha256("\0".join(map(str, said)).encode()).hexdigest()

    def prepare(self, scratch: Path) -> None:
        """Load what every translation needs, for processes that part from here: 0.6 s of each module otherwise."""
        source = scratch / "prepare.py"
        source.write_text("class A:\n    def f(self, a, *b):\n        return [a for a in b]\n")
        self.translate(Module("prepare", source, ""), scratch / "prepare.c")

    def translate(self, module: Module, c_file: Path) -> bool:
        """Cython's part; whether it succeeded. Its messages go to stderr."""
        from Cython.Compiler.Main import CompilationOptions
        from Cython.Compiler.Main import compile as cythonize

        options = CompilationOptions(
            output_file=str(c_file),
            compiler_directives=dict(self.directives),
            language_level=3,
            include_path=["src"],
        )
        result = cythonize(str(module.source), options, full_module_name=module.name)
        return not result.num_errors and c_file.exists()

    def compile(self, module: Module, c_file: Path, target: Path) -> None:
        """The C compiler's and the linker's part. Raises CalledProcessError."""
        c_object = c_file.with_suffix(".o")
        include = [f"-I{folder}" for folder in self.include]
        flags = [*module.flags, *COMPILE_ARGS, *include]
        for command in (
            [*self.compiler.compiler_so, *flags, "-c", str(c_file), "-o", str(c_object)],
            [*self.compiler.linker_so, str(c_object), *LINK_ARGS, "-o", str(target)],
        ):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


@dataclass(frozen=True)
class ObjectCache:
    """The objects that have been compiled, each under its module's name and the hash of what made it."""

    folder: Path
    toolchain: Toolchain
    fingerprint: str

    @classmethod
    def open(cls, folder: Path, toolchain: Toolchain) -> ObjectCache:
        """The cache in this folder, for this toolchain."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, toolchain, toolchain.fingerprint())

    def path(self, module: Module) -> Path:
        """Where the module's object is, or will be."""
        parts = (module.hash, self.fingerprint, *module.flags)
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return self.folder / f"{module.name}-{key}.so"

    def missing(self, modules: Iterable[Module]) -> list[Module]:
        """The modules that have no object, the largest first: what runs alone at the end is short."""
        found = [module for module in modules if not self.path(module).exists()]
        return sorted(found, key=lambda module: -module.source.stat().st_size)

    def prune(self, used: Iterable[Module]) -> None:
        """Mark what is used; of each module, forget all but the last few that were."""
        for module in used:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.path(module))
        by_module: dict[str, list[Path]] = {}
        for path in self.folder.glob("*.so"):
            by_module.setdefault(path.name.rpartition("-")[0], []).append(path)
        for paths in by_module.values():
            for path in sorted(paths, key=lambda path: -path.stat().st_mtime)[KEPT_PER_MODULE:]:
                path.unlink(missing_ok=True)


class BuildInterruptedError(Exception):
    """SIGINT came; what had been compiled is kept."""


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Builds of one tree take turns; one that has to wait says so."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("weft: another build of this tree is running; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def worker_count(asked: int | None = None) -> int:
    """How many modules are compiled at a time: as asked, else $MAX_JOBS, else the processors that we may use."""
    named = os.environ.get("MAX_JOBS", "")
    if asked or named.isdecimal():
        return max(1, asked or int(named))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_missing(cache: ObjectCache, modules: Iterable[Module], workers: int) -> dict[str, str]:
    """Compile the modules that the cache lacks. The messages of those that failed, by name.

    Raises:
        BuildInterruptedError: SIGINT came. What is whole is kept, and the next call goes on from there.
        OSError: the disk is full, or the folder cannot be written.
    """
    waiting = cache.missing(modules)
    if not waiting:
        return {}
    require_space(cache.folder, len(waiting))
    with _scratch(cache.folder.parent / "unfinished") as scratch:
        cache.toolchain.prepare(scratch)
        return _run_all(cache, waiting, workers, Progress(len(waiting)), scratch)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """An empty folder, removed afterwards; what a build that was killed left there is removed before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_space(folder: Path, count: int) -> None:
    """Refuse to begin what the disk will not hold."""
    free, needed = shutil.disk_usage(folder).free, count * BYTES_PER_MODULE
    if free < needed:
        words = f"compiling {count} modules takes up to {needed >> 20} MB, {free >> 20} MB are free"
        raise OSError(errno.ENOSPC, words, str(folder))


def _run_all(
    cache: ObjectCache, waiting: list[Module], workers: int, progress: Progress, scratch: Path
) -> dict[str, str]:
    """One process for each module, `workers` at a time; the messages of those that failed."""
    context = multiprocessing.get_context("fork")
    queue, running, failed = list(reversed(waiting)), {}, {}
    try:
        while queue or running:
            while queue and len(running) < workers:
                module = queue.pop()
                process = context.Process(target=_make, args=(cache, module, scratch))
                process.start()
                running[process.sentinel] = (process, module, time.monotonic())
            for sentinel in multiprocessing.connection.wait(list(running), timeout=1.0):
                process, module, begun = running.pop(sentinel)
                process.join()
                if process.exitcode == INTERRUPTED:
                    raise KeyboardInterrupt
                if process.exitcode:
                    failed[module.name] = (scratch / f"{module.name}.log").read_text()
                progress.finished(module.name, time.monotonic() - begun, bool(process.exitcode))
            progress.tick()
    except KeyboardInterrupt:
        _end([process for process, _, _ in running.values()])
        raise BuildInterruptedError(f"{progress.done} of {progress.total}") from None
    progress.end()
    return failed


def _end(processes: list[Any]) -> None:
    """Processes that SIGINT may not have reached."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def _make(cache: ObjectCache, module: Module, scratch: Path) -> None:
    """The whole of a process: what is said goes to the module's log, what became of it is the exit status."""
    gc.disable()  # a fifth of a translation, and the process ends with it
    with open(scratch / f"{module.name}.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        sys.exit(0 if _make_object(cache, module, scratch) else 1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except subprocess.CalledProcessError as error:
        sys.exit(INTERRUPTED if error.returncode == -signal.SIGINT else 1)


def _make_object(cache: ObjectCache, module: Module, scratch: Path) -> bool:
    """Translate, compile, and put the object where it is looked for."""
    c_file, target = scratch / f"{module.name}.c", scratch / f"{module.name}.so"
    if not cache.toolchain.translate(module, c_file):
        return False
    cache.toolchain.compile(module, c_file, target)
    os.replace(target, cache.path(module))
    for path in (c_file, c_file.with_suffix(".o")):
        path.unlink()
    return True


class Progress:
    """What is done of all, and how long it took: one line that is written over, or a line now and then."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._begun = self._said = time.monotonic()
        self._overwrites = sys.stdout.isatty()
        print(f"weft: compiling {total} modules", flush=True)

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """One module is compiled, or is not."""
        self.done += 1
        if failed:
            self._print(f"{name} failed", "\n")
        elif self._overwrites:
            self._print(f"{name} {seconds:.1f} s", "")

    def tick(self) -> None:
        """Say where we are, if that is due."""
        if not self._overwrites and time.monotonic() - self._said >= REPORT_SECONDS:
            self._print("", "\n")

    def end(self) -> None:
        """All are done."""
        self._print("", "\n")

    def _print(self, words: str, end: str) -> None:
        self._said = time.monotonic()
        start = "\r\033[K" if self._overwrites else ""
        passed = f"{self._said - self._begun:.0f} s"
        counted = f"[{self.done:{len(str(self.total))}}/{self.total}]"
        print(f"{start}{counted} {passed:>5}  {words}".rstrip(), end=end, flush=True)
