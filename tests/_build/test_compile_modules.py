"""The parallel build: each object is made once, failures are told apart, and what is interrupted goes on."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft._build import compiled

TOOL = compiled.package_folder().parent.parent / "tools" / "compile_modules.py"
if not TOOL.exists():
    pytest.skip("not a source tree", allow_module_level=True)
# Newer Pythons warn where a process with threads forks; the build itself has none.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture(scope="module")
def compiling():
    spec = importlib.util.spec_from_file_location("compile_modules", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_modules"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["compile_modules"]


@dataclass
class Toolchain:
    """Copies a source instead of compiling it; a source may ask to fail, or to be interrupted."""

    made: Path
    version: str = "one"

    def fingerprint(self):
        return self.version

    def prepare(self, scratch):
        pass

    def translate(self, module, c_file):
        c_file.write_text(module.source.read_text())
        return True

    def compile(self, module, c_file, target):
        text = c_file.read_text()
        with self.made.open("a") as made:
            made.write(f"{module.name}\n")
        if text == "wrong":
            os.write(2, b"a message of the compiler")
            raise subprocess.CalledProcessError(1, "cc")
        if text == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        target.write_text(text)
        c_file.with_suffix(".o").touch()


@pytest.fixture
def tree(compiling, tmp_path):
    """What makes modules from texts, and compiles them; `tree.made` lists what has been compiled."""

    class Tree:
        toolchain = Toolchain(tmp_path / "made")

        def __call__(self, **texts):
            modules = []
            for name, text in texts.items():
                source = tmp_path / f"{name}.py"
                source.write_text(text)
                modules.append(compiling.Module(name, source, compiled.source_hash(source)))
            cache = compiling.ObjectCache.open(tmp_path / "objects", self.toolchain)
            failed = compiling.compile_missing(cache, modules, workers=2)
            found = {m.name: cache.path(m).read_text() for m in modules if m.name not in failed}
            return found, failed

        @property
        def made(self):
            return sorted(self.toolchain.made.read_text().split())

    return Tree()


def test_each_state_of_a_source_is_compiled_once(tree):
    assert tree(a="1", b="2") == ({"a": "1", "b": "2"}, {})
    assert tree(a="1", b="3") == ({"a": "1", "b": "3"}, {})
    assert tree(a="1", b="2") == ({"a": "1", "b": "2"}, {})  # back on the first branch
    assert tree.made == ["a", "b", "b"]


def test_another_compiler_compiles_anew(tree):
    tree(a="1")
    tree.toolchain.version = "two"
    tree(a="1")
    assert tree.made == ["a", "a"]


def test_a_module_that_fails_does_not_hold_up_the_others(tree):
    found, failed = tree(a="wrong", b="2", c="3")
    assert found == {"b": "2", "c": "3"}
    assert list(failed) == ["a"] and "a message of the compiler" in failed["a"]
    assert tree(a="1", b="2", c="3")[1] == {}
    assert tree.made == ["a", "a", "b", "c"]


def test_what_is_interrupted_goes_on_where_it_was(compiling, tree, tmp_path):
    with pytest.raises(compiling.BuildInterruptedError):
        tree(**{f"long{i}": f"{i} " * 100 for i in range(3)}, z="interrupted")
    assert not (tmp_path / "unfinished").exists()
    before = set(tree.made) - {"z"}
    tree(**{f"long{i}": f"{i} " * 100 for i in range(3)}, z="mended")
    assert [name for name in tree.made if name in before] == sorted(before)


def test_what_a_killed_build_left_is_no_object(tree, tmp_path):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "a.so").write_text("half")
    assert tree(a="1") == ({"a": "1"}, {})


def test_a_full_disk_is_said_before_it_is_full(compiling, tree, monkeypatch):
    usage = compiling.shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(compiling.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match="1 MB are free"):
        tree(a="1")


def test_objects_of_old_sources_are_forgotten(compiling, tree, tmp_path):
    for number in range(8):
        tree(a=str(number))
    cache = compiling.ObjectCache.open(tmp_path / "objects", tree.toolchain)
    source = tmp_path / "a.py"
    module = compiling.Module("a", source, compiled.source_hash(source))
    cache.prune([module])
    assert len(list(cache.folder.glob("a-*.so"))) == compiling.KEPT_PER_MODULE
    assert cache.missing([module]) == []


def _hold(folder, held, ends):
    sys.path.insert(0, str(TOOL.parent))
    import compile_modules

    with compile_modules.exclusive(folder):
        held.set()
        ends.wait(30)


def test_two_builds_of_one_tree_take_turns(compiling, tmp_path, capsys):
    context = multiprocessing.get_context("spawn")
    held, ends = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, ends))
    other.start()
    assert held.wait(30)
    threading.Timer(0.3, ends.set).start()
    with compiling.exclusive(tmp_path):
        assert ends.is_set()
    other.join()
    assert "another build of this tree is running" in capsys.readouterr().out


def test_as_many_at_a_time_as_is_asked(compiling, monkeypatch):
    monkeypatch.setenv("MAX_JOBS", "3")
    assert compiling.worker_count() == 3
    assert compiling.worker_count(5) == 5
    monkeypatch.delenv("MAX_JOBS")
    assert compiling.worker_count() >= 1


def test_the_hash_covers_declarations_that_are_cimported_in_turn(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "far.pxd").write_text("cdef int far\n")
    (package / "near.pxd").write_text("from pack.far cimport far\n")
    (package / "beside.pxd").write_text("cdef int beside\n")
    source = package / "a.py"
    source.write_text("from cython.cimports.pack.near import x\nfrom pack.beside import y\n")
    first = compiled.SourceHashes(package).of(source)
    (package / "beside.pxd").write_text("cdef long beside\n")  # imported, not cimported
    assert compiled.SourceHashes(package).of(source) == first
    (package / "far.pxd").write_text("cdef long far\n")
    assert compiled.SourceHashes(package).of(source) != first


def test_the_hash_covers_a_module_that_is_cimported_by_its_name(tmp_path):
    package = tmp_path / "pack"
    (package / "inner").mkdir(parents=True)
    declarations = package / "inner" / "near.pxd"
    declarations.write_text("cdef int near\n")
    source = package / "a.py"
    for line in ("import far, near", "import (far,\n    near)"):
        source.write_text(f"from cython.cimports.pack.inner {line}\n")
        first = compiled.SourceHashes(package).of(source)
        declarations.write_text(declarations.read_text() + "cdef long other\n")
        assert compiled.SourceHashes(package).of(source) != first
