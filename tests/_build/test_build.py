"""What is compiled, refusing to run uncompiled, and noticing a stale build."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from weft._build import compiled
from weft._build.compiled import MARKER, compiled_sources, require, source_hash


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
    require("weft.engine.devices.cpu.pool", True)
    with pytest.raises(ImportError, match=r"fix +python setup.py build_ext --inplace"):
        require("weft.engine.devices.cpu.pool", False)


def test_the_source_of_a_hot_module_does_not_run_interpreted():
    """Cython's import hook would run pure Python mode; `require` stands before anything else."""
    source = compiled_sources()["weft.engine.devices.cpu.pool"].read_text()
    assert source.index("require(__name__, cython.compiled)") < source.index("_live = ")


def test_every_compiled_module_refuses_or_cannot_be_interpreted():
    """Modules that use C declarations fail at them; `import weft` then says what is not built."""
    sources = {name: path.read_text() for name, path in compiled_sources().items()}
    told = ("require(__name__, cython.compiled)", "from cython.cimports.weft")
    assert [name for name, text in sources.items() if not any(t in text for t in told)] == []


def test_a_stale_build_is_named_when_asked(monkeypatch):
    hashes = {name: source_hash(path) for name, path in compiled_sources().items()}
    monkeypatch.setattr(compiled, "built_hashes", lambda: hashes)
    monkeypatch.setenv("WEFT_CHECK_BUILD", "1")
    assert compiled.stale_modules() == []
    require("weft.engine.devices.cpu.pool", True)
    hashes["weft.engine.devices.cpu.pool"] = "0" * 16
    assert compiled.stale_modules() == ["weft.engine.devices.cpu.pool"]
    with pytest.raises(ImportError, match="stale build"):
        require("weft.engine.devices.cpu.pool", True)
    monkeypatch.delenv("WEFT_CHECK_BUILD")
    require("weft.engine.devices.cpu.pool", True)


def test_without_a_compiler_the_build_says_what_to_install(tmp_path):
    root = compiled.package_folder().parent.parent
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


def test_without_headers_the_build_says_what_to_install(tmp_path):
    root = compiled.package_folder().parent.parent
    if not (root / "setup.py").exists():
        pytest.skip("not a source tree")
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho Python.h: no such file >&2\nexit 1\n")
    compiler.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--only", "weft.func.fibers"],
        cwd=root,
        env={"CC": str(compiler)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "the headers of Python" in done.stderr and "python3-dev" in done.stderr


def linked_tree(folder, without=(), changed=()):
    """A copy of the package made of links: without the builds of some modules, with newer sources and no usable build
    of others."""
    package = compiled.package_folder()
    for path in package.rglob("*"):
        place = folder / "weft" / path.relative_to(package)
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        name = ".".join(("weft", *path.relative_to(package).parts)).split(".cpython")[0]
        if path.suffix == ".so" and name in (*without, *changed):
            if name in changed:
                place.write_bytes(b"no library")
        elif path.suffix == ".py" and name.removesuffix(".py") in changed:
            place.write_text(path.read_text() + "# newer\n")
        elif name == "weft._build.compiled.py":  # finds the package by where it is itself
            place.write_text(path.read_text())
        else:
            place.symlink_to(path)
    return folder


@pytest.mark.parametrize(
    ("module", "broken"),
    [
        ("weft.engine.ir.tape", "without"),
        ("weft.engine.pipeline.driver", "without"),
        ("weft.engine.ir.tape", "changed"),
        ("weft.engine.pipeline.driver", "changed"),
        ("weft.nn.functional.losses.regression", "changed"),
    ],
)
def test_a_tree_that_is_built_in_part_says_what_to_build(tmp_path, module, broken):
    tree = linked_tree(tmp_path, **{broken: (module,)})
    program = "import weft; weft.ones(2).add(1).tolist(); from weft import nn; nn.Linear(2, 2)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tree), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    what = "not built" if broken == "without" else "a stale build"
    assert f"\nImportError: weft is {what} in part: {module}\n" in done.stderr, done.stderr
    assert "fix       python setup.py build_ext --inplace" in done.stderr


@pytest.fixture
def setup_script(monkeypatch):
    """What setup.py defines."""
    path = Path(__file__).resolve().parents[2] / "setup.py"
    if not path.exists():
        pytest.skip("not a source tree")
    monkeypatch.setattr(pytest.importorskip("setuptools"), "setup", lambda **_: None)
    for name in ("compiled", "compile_modules"):
        monkeypatch.setitem(sys.modules, name, None)
    return runpy.run_path(str(path))


def test_what_the_builder_has_set_changes_no_kernels(setup_script, monkeypatch):
    monkeypatch.setenv("WEFT_GUARD", "1")
    code = "import os; raise SystemExit('WEFT_GUARD' in os.environ or 'PATH' not in os.environ)"
    assert setup_script["succeeds"]([sys.executable, "-c", code], 60)


def test_compiling_kernels_ends_in_time(setup_script, capfd):
    command = [sys.executable, "-c", "import time; time.sleep(100)"]
    assert not setup_script["succeeds"](command, 0.2)
    assert "stopped after 0.2 s" in capfd.readouterr().err
