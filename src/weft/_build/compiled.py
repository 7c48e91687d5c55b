"""The check that hot modules run compiled, and that the build matches the sources.

Each module that Cython compiles calls `require(__name__, cython.compiled)` first. Interpreted it
would be a hundred times slower and some of it cannot work at all, so it refuses. `setup.py` writes
the hash of every source that it compiled into `_build/info.py`; `stale_modules` names the sources
that have changed since. Compiling is left to `setup.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if (
    TYPE_CHECKING
):  # what only the build and the checks need is imported there: this runs at every `import weft`
    from pathlib import Path

MARKER = "# cython: language_level=3"
HOW_TO_BUILD = "python setup.py build_ext --inplace   (in the source tree; needs gcc or clang)"


def is_compiled_source(path: Path) -> bool:
    """True if `setup.py` compiles this .py file: it has a sibling .pxd, or carries the marker."""
    if path.with_suffix(".pxd").exists():
        return True
    with path.open(encoding="utf-8") as lines:
        return any(line.strip() == MARKER for _, line in zip(range(5), lines, strict=False))


def package_folder() -> Path:
    """The folder of the package's sources."""
    from pathlib import Path

    return Path(__file__).resolve().parents[1]


def compiled_sources(package: Path | None = None) -> dict[str, Path]:
    """The modules of the package that are compiled: dotted name to .py file, sorted by name."""
    package = package_folder() if package is None else package
    found = (path for path in package.rglob("*.py") if is_compiled_source(path))
    names = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in found
    }
    return dict(sorted(names.items()))


class SourceHashes:
    """Hashes of the compiled modules of a package: of the .py, its .pxd, and every .pxd that these cimport, directly
    or not."""

    def __init__(self, package: Path | None = None) -> None:
        import re

        self._root = (package_folder() if package is None else package).parent
        self._cimport = re.compile(
            rb"^\s*(?:from\s+cython\.cimports\.([\w.]+)\s+import|from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))\b"
            rb"\s*(\([^)]*\)|.*)",
            re.MULTILINE,
        )
        self._cimported: dict[Path, list[Path]] = {}

    def of(self, path: Path) -> str:
        """The hash of one module, sixteen hexadecimal digits."""
        import hashlib

        digest = hashlib.sha256(path.read_bytes())
        for declarations in sorted(self._declarations(path)):
            digest.update(b"\0" + declarations.read_bytes())
        return digest.hexdigest()[:16]

    def _declarations(self, path: Path) -> set[Path]:
        """The .pxd files that decide what the module is compiled to, its own among them."""
        own = path.with_suffix(".pxd")
        found, left = set(), [path, *([own] if own.exists() else [])]
        while left:
            file = left.pop()
            if file.suffix == ".pxd":
                found.add(file)
            left.extend(set(self._cimports(file)) - found - set(left))
        return found

    def _cimports(self, file: Path) -> list[Path]:
        """The package's .pxd files that one file names."""
        if file not in self._cimported:
            modules = set()
            for *words, names in self._cimport.findall(file.read_bytes()):
                module = b"".join(words)
                within = names.translate(None, b"(),").split()  # a name may be a module of a package
                modules |= {module, *(module + b"." + name for name in within)}
            paths = [self._root / (name.decode().replace(".", "/") + ".pxd") for name in modules]
            self._cimported[file] = [path for path in paths if path.exists()]
        return self._cimported[file]


def source_hash(path: Path) -> str:
    """The hash of one of this package's compiled modules."""
    return SourceHashes().of(path)


def built_hashes() -> dict[str, str]:
    """The source hashes at the last build; empty where nothing has been built."""
    import importlib.util

    # Read anew each time, past sys.modules: a build may have run since the last look.
    info = package_folder() / "_build" / "info.py"
    if not info.exists():
        return {}
    spec = importlib.util.spec_from_file_location("weft._build.info", info)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.SOURCE_HASHES)


def stale_modules() -> list[str]:
    """The compiled modules whose sources have changed since they were built."""
    built, hashes = built_hashes(), SourceHashes()
    sources = compiled_sources().items()
    return [name for name, path in sources if built.get(name) != hashes.of(path)]


def missing_modules() -> list[str]:
    """The compiled modules that have sources and no build for this interpreter."""
    from importlib.machinery import EXTENSION_SUFFIXES

    return [
        name
        for name, path in compiled_sources().items()
        if not any(path.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
    ]


def import_failure(error: Exception) -> Exception:
    """The error to raise if importing a part of the package has failed: modules that are not built, or older than what
    they use, fail in strange ways (`__spec__`, sizes of classes)."""
    for what, names in (("not built", missing_modules()), ("a stale build", stale_modules())):
        if names:
            listed = ", ".join(names[:4]) + (f" and {len(names) - 4} others" if names[4:] else "")
            return ImportError(
                f"weft is {what} in part: {listed}\n"
                f"  expected  all modules built by Cython from the present sources\n"
                f"  got       {what}: {listed} ({type(error).__name__}: {error})\n"
                f"  fix       {HOW_TO_BUILD}"
            )
    return error


def require(module: str, compiled: bool) -> None:
    """Refuse to go on interpreted; under WEFT_CHECK_BUILD=1 also with a stale build."""
    if not compiled:
        raise ImportError(
            f"{module} runs only compiled\n"
            f"  expected  {module} built by Cython\n"
            f"  got       the plain Python source\n"
            f"  fix       {HOW_TO_BUILD}"
        )
    if os.environ.get("WEFT_CHECK_BUILD") == "1" and module in stale_modules():
        raise ImportError(
            f"{module} is a stale build\n"
            f"  expected  the build of the present source\n"
            f"  got       the build of an older source\n"
            f"  fix       {HOW_TO_BUILD}"
        )
