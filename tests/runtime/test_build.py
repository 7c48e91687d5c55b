"""What is compiled, refusing to run uncompiled, and noticing a stale build."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft import _compiled
from weft._compiled import MARKER, compiled_sources, require, source_hash


def test_a_pxd_or_the_marker_makes_a_module_compiled(tmp_path):
    package = tmp_path / "pack"
    (package / "sub").mkdir(parents=True)
    (package / "plain.py").write_text("x = 1\n")
    (package / "marked.py").write_text(MARKER + "\nx = 1\n")
    (package / "sub" / "declared.py").write_text("x = 1\n")
    (package / "sub" / "declared.pxd").write_text("cdef int x\n")
    (package / "late.py").write_text("\n" * 8 + MARKER + "\n")
    (package / "alone.pxd").write_text("")
    assert list(compiled_sources(package)) == ["pack.marked", "pack.sub.declared"]


def test_the_hash_covers_source_and_declarations(tmp_path):
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    first = source_hash(source)
    source.with_suffix(".pxd").write_text("cdef int x\n")
    second = source_hash(source)
    source.write_text("x = 2\n")
    assert len({first, second, source_hash(source)}) == 3


def test_interpreted_hot_modules_refuse():
    require("weft.runtime.pool", True)
    with pytest.raises(ImportError, match=r"fix +python setup.py build_ext --inplace"):
        require("weft.runtime.pool", False)


def test_the_source_of_a_hot_module_does_not_run_interpreted():
    """Cython's import hook would run pure Python mode; `require` stands before anything else."""
    source = compiled_sources()["weft.runtime.pool"].read_text()
    assert source.index("require(__name__, cython.compiled)") < source.index("_live = ")


def test_a_stale_build_is_named_when_asked(monkeypatch):
    hashes = {name: source_hash(path) for name, path in compiled_sources().items()}
    monkeypatch.setattr(_compiled, "built_hashes", lambda: hashes)
    monkeypatch.setenv("WEFT_CHECK_BUILD", "1")
    assert _compiled.stale_modules() == []
    require("weft.runtime.pool", True)
    hashes["weft.runtime.pool"] = "0" * 16
    assert _compiled.stale_modules() == ["weft.runtime.pool"]
    with pytest.raises(ImportError, match="stale build"):
        require("weft.runtime.pool", True)
    monkeypatch.delenv("WEFT_CHECK_BUILD")
    require("weft.runtime.pool", True)


def test_without_a_compiler_the_build_says_what_to_install(tmp_path):
    root = _compiled.package_folder().parent.parent
    if not (root / "setup.py").exists():
        pytest.skip("not a source tree")
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=root,
        env={"CC": "no-such-compiler", "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "weft needs a C compiler" in done.stderr and "install gcc or clang" in done.stderr
