"""The build: finds the modules that Cython compiles, and compiles those that have changed.

What is compiled is decided by the sources themselves (`weft._compiled.is_compiled_source`);
everything else about the package stands in pyproject.toml. A module that fails does not hold up the
others: the rest is built and the failures are reported at the end. `--only weft.runtime` builds a
part. The hash of each source that was built goes into the generated `_build_info.py`, by which a
stale build is recognised.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "weft"
JOBS = 2

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "binding": True,
}
# No -march=native: a wheel runs on other machines. No contraction: a * b + c rounds twice.
COMPILE_ARGS = ["-O3", "-g0", "-ffp-contract=off", "-Wno-unreachable-code", "-Wno-unused-function"]
NO_COMPILER = (
    "weft needs a C compiler to build its compiled modules: install gcc or clang "
    "(Debian: apt install gcc; macOS: xcode-select --install), or name one with CC=..."
)
NO_HEADERS = (
    "weft needs the headers of Python and of the C library to build its compiled modules, and {compiler} does not find "
    "them: install them (Debian: apt install python3-dev libc6-dev; Fedora: python3-devel glibc-headers)"
)


class Module(Extension):
    """An extension that can stand in a set, as cythonize wants when it excludes failures."""

    __hash__ = object.__hash__


def load_rules() -> ModuleType:
    """`weft._compiled`, loaded by path: importing weft would need the build that is being made."""
    spec = importlib.util.spec_from_file_location("_compiled", PACKAGE / "_compiled.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rules = load_rules()


def find_extensions() -> list[Module]:
    """One extension per compiled module."""
    return [
        Module(
            name,
            [str(path.relative_to(ROOT))],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=["-pthread"],
        )
        for name, path in rules.compiled_sources(PACKAGE).items()
    ]


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


@contextlib.contextmanager
def build_lock() -> Iterator[None]:
    """Builds of one tree take turns."""
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class BuildExtensions(build_ext):
    """Cythonize and compile what changed, install it atomically, record the source hashes."""

    user_options = [
        *build_ext.user_options,
        ("only=", None, "build only modules named so or below"),
    ]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.only = ""

    def run(self) -> None:
        check_compiler()
        self.extensions = [ext for ext in self.extensions if ext.name.startswith(self.only)]
        self.into_source_tree = bool(self.inplace)  # super().run() clears inplace for its duration
        self.failed: list[str] = []
        with build_lock():
            super().run()
        if self.failed:
            raise SystemExit("weft: these modules failed to compile: " + ", ".join(self.failed))

    def build_extensions(self) -> None:
        sources = rules.compiled_sources(PACKAGE)
        hashes = {ext.name: rules.source_hash(sources[ext.name]) for ext in self.extensions}
        self.failed = self.cythonize(hashes)
        self.parallel = self.parallel or JOBS
        self.extensions = [ext for ext in self.extensions if ext.name not in self.failed]
        super().build_extensions()
        self.extensions = [ext for ext in self.extensions if ext.name not in self.failed]
        kept = {k: v for k, v in rules.built_hashes().items() if k in sources and k not in hashes}
        done = {k: v for k, v in hashes.items() if k not in self.failed}
        self.write_build_info(dict(sorted((kept | done).items())))

    def build_extension(self, ext: Extension) -> None:
        if self.debug:  # a third of the time to compile, for what is built to look for faults
            ext.extra_compile_args = [*ext.extra_compile_args, "-O1"]
        try:
            super().build_extension(ext)
        except CompileError:  # the compiler has printed why
            self.failed.append(ext.name)

    def cythonize(self, hashes: dict[str, str]) -> list[str]:
        """Translate the changed sources to C under build/; the names of those that failed."""
        from Cython.Build import cythonize

        built = rules.built_hashes()
        sources = {ext.name: ext.sources[0] for ext in self.extensions}
        for name, source in sources.items():  # a source may be older in time and yet different
            if built.get(name) != hashes[name]:
                (ROOT / "build" / "cython" / source).with_suffix(".c").unlink(missing_ok=True)
        translated = cythonize(
            self.extensions,
            nthreads=JOBS,
            build_dir=os.path.join("build", "cython"),
            compiler_directives=DIRECTIVES,
            exclude_failures=True,
            language_level=3,
            include_path=["src"],
        )
        c_sources = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = c_sources.get(ext.name, ext.sources)
        return [name for name in sources if name not in c_sources]

    def copy_extensions_to_source(self) -> None:
        """Replace by rename, and only what changed: a running process keeps its mapped file."""
        for ext in self.extensions:
            built = Path(self.build_lib) / self.get_ext_filename(ext.name)
            target = ROOT / "src" / self.get_ext_filename(ext.name)
            if target.exists() and filecmp.cmp(built, target, shallow=False):
                continue
            temporary = target.with_suffix(".tmp")
            shutil.copy2(built, temporary)
            os.replace(temporary, target)
            print(f"installed {target.relative_to(ROOT)}")

    def write_build_info(self, hashes: dict[str, str]) -> None:
        """Record the hash of each source that was built."""
        lines = "".join(f'    "{name}": "{value}",\n' for name, value in hashes.items())
        title = '"""Written by setup.py: the hash of each compiled source."""'
        text = f"{title}\n\nSOURCE_HASHES = {{\n{lines}}}\n"
        folder = PACKAGE if self.into_source_tree else Path(self.build_lib) / "weft"
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / "_build_info.tmp"
        temporary.write_text(text)
        os.replace(temporary, folder / "_build_info.py")


setup(ext_modules=find_extensions(), cmdclass={"build_ext": BuildExtensions})
