"""`import weft` loads what recording needs; the rest is imported when it is first named, and is then all there."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

import weft
from weft._build.lazy import later
from weft.functional.support import out_dtypes, variants
from weft.nested import dispatch

PACKAGE = Path(weft.__file__).parent
RECORDING = [
    f"weft.engine.{room}.{path.stem}"
    for room in ("capi", "ir", "dispatch", "frontend", "api")
    for path in sorted((PACKAGE / "engine" / room).glob("[!_]*.py"))
]
# What no program needs that only records (a number's memory is made with it, as the settings say): each is imported by
# its first use.
RARE = {
    "autograd.anomaly_mode", "autograd.backward", "autograd.forward_ad", "autograd.function", "autograd.functional",
    "autograd.gradcheck", "autograd.graph", "autograd.multithreading", "backends", "cuda", "data", "debug", "demo",
    "engine.backward.apply_vjp", "engine.backward.batching.batched_vjp", "engine.backward.reachability",
    "engine.backward.saved_tensor_hooks", "engine.backward.walk", "engine.devices.cpu.codegen",
    "engine.devices.cpu.kernel_files.disk_cache", "engine.devices.cpu.executor", "engine.devices.cpu.instructions",
    "engine.devices.cpu.jit", "engine.devices.cpu.linking", "engine.devices.cpu.threads", "engine.pipeline",
    "engine.pipeline.batching", "engine.runtime.commit", "engine.devices.cpu.lowering",
    "engine.runtime.executable_cache", "engine.runtime.launch", "func", "functional.special.bessel", "io", "linalg",
    "nn", "ops.elementwise.bessel", "optim", "special", "tensor.copying",
    "tensor.reading.printing", "testing", "types", "utils",
}  # fmt: skip


def run(program: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported_by(statement: str) -> set[str]:
    """The modules that a statement imports beyond those that NumPy has."""
    program = f"import sys, numpy; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    return set(run(program).split())


def test_import_weft_imports_nothing_that_is_rarely_needed() -> None:
    found = imported_by("import weft")
    assert "weft.engine.frontend.tensor" in found
    assert {name for name in RARE if f"weft.{name}" in found} == set()


def test_import_weft_imports_nothing_foreign_beyond_numpy() -> None:
    foreign = {name.split(".")[0] for name in imported_by("import weft")} - {"weft"}
    foreign -= {"__future__", *sys.builtin_module_names}
    assert {name for name in foreign if "cython" not in name} == set()


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_import_leaves_the_collector_as_it_was(state: str) -> None:
    found = run(f"import gc; gc.{state}(); import weft; print(gc.isenabled())").strip()
    assert found == str(state == "enable")


def test_the_collector_does_not_look_through_what_the_import_makes() -> None:
    program = """
import gc, numpy
gc.collect()
import weft
young = len(gc.get_objects(0)) + len(gc.get_objects(1))
print(gc.get_freeze_count(), young < len(gc.get_objects(2)) / 4)
"""
    assert run(program).split() == ["0", "True"]


def test_what_a_program_has_frozen_stays_frozen() -> None:
    program = """
import gc, numpy
gc.freeze()
before = gc.get_freeze_count()
import weft
print(gc.get_freeze_count() / before)
"""
    assert 0.9 < float(run(program)) <= 1.0  # some is let go of meanwhile


def test_recording_needs_nothing_more() -> None:
    program = """
import sys, weft
w = weft.ones(3, 2, requires_grad=True)
before = set(sys.modules)
loss = ((weft.zeros(4, 3) @ w).relu() - 1).square().mean()
print(*sorted(set(sys.modules) - before))
"""
    assert run(program).split() == []


@pytest.mark.parametrize("package", [weft, weft.autograd], ids=lambda package: package.__name__)
def test_every_name_of_a_package_is_there(package: types.ModuleType) -> None:
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) <= set(dir(package))


def test_star_imports_functions_and_no_modules() -> None:
    names = run("from weft import *; print(*globals())").split()
    assert {"Tensor", "tensor", "no_grad", "set_printoptions", "load", "float32", "pi"} <= set(
        names
    )
    assert {"nn", "annotations", "Any"} & set(names) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    for package in (weft, weft.autograd):
        with pytest.raises(
            AttributeError, match=f"module '{package.__name__}' has no attribute 'xyz'"
        ):
            package.xyz  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'xyz' from 'weft'"):
        from weft import xyz  # noqa: F401


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("quantize_per_channel", "float16"),
        ("quantize_per_tensor", "float16"),
    ],
)
def test_a_name_of_pytorch_that_is_not_here_says_what_is(name: str, instead: str) -> None:
    assert not hasattr(weft, name) and hasattr(weft, instead)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': .*{instead}") as caught:
        getattr(weft, name)
    assert caught.value.name == name


def test_a_name_hides_the_submodule_that_defines_it() -> None:
    program = """
import weft, weft.autograd.gradcheck
from weft.autograd.backward import grad
import weft.engine.backward.walk
assert not isinstance(weft.autograd.backward, type(weft)), weft.autograd.backward
assert weft.autograd.gradcheck is weft.autograd.gradcheck.__globals__["gradcheck"]
assert weft.autograd.grad is grad
assert isinstance(weft.engine.backward.walk, type(weft)) and isinstance(weft.nn.functional, type(weft))
"""
    run(program)


def test_a_broken_submodule_says_what_it_misses(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "breaks.py").write_text("import not_there\n")
    program = f"""
import weft
weft.__path__.append({str(tmp_path)!r})
try:
    weft.breaks
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(program).strip() == "not_there"


def test_modules_that_tables_name_are_there() -> None:
    named = {out_dtypes._COPYING, *variants._PLACES, *dispatch._ELEMENTWISE_MODULES}
    assert [module for module in sorted(named) if find_spec(module) is None] == []


def test_a_module_of_operations_is_no_namespace_of_a_programs() -> None:
    run("""
import weft
from weft.ops.elementwise import bessel, special_functions
weft.i0(weft.ones(2)); bessel.zeta
""")


def test_later_imports_once_and_keeps_names() -> None:
    module = later("weft.autograd.anomaly_mode")
    assert "set_detect_anomaly" not in vars(module)
    assert module.set_detect_anomaly is weft.autograd.set_detect_anomaly
    assert "set_detect_anomaly" in vars(module)
    with pytest.raises(AttributeError, match="xyz"):
        module.xyz  # noqa: B018


@pytest.mark.parametrize("module", RECORDING)
def test_any_module_that_records_may_be_imported_first(module: str) -> None:
    # Some of them call each other's C functions (docs/decisions/0028): an order of imports must not matter.
    program = f"""
import sys, types
weft = sys.modules["weft"] = types.ModuleType("weft")
weft.__path__ = [{str(PACKAGE)!r}]
import {module}
"""
    run(program)
