"""Imports point one way: each room knows only those below it, and no module waits for itself (ARCHITECTURE.md).

Imports and cimports count alike, in functions too; what stands under TYPE_CHECKING does not run and counts only where
annotations are asked for.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "weft"
PYTORCHS = (
    "compat.torch."  # on the path of the package: what lies there is called as if it lay at the top
)
# Rooms, lowest first; those of one line do not know each other. A module belongs to the longest name that it starts
# with.
LAYERS = """
errors
_build _typing config compat.einops_backend distributed.launch
_progress
io.files
engine.capi
engine.ir
compat.absent
engine.devices.tuning engine.devices.trace
engine.devices.api
engine.devices.kernel_call
engine.dispatch
engine.frontend
engine.replay
ops.registry
ops.primitives ops.random_numbers ops.any_size ops.direct_vjps ops.limits
ops.composite
ops.contractions ops.structure ops.elementwise
ops
engine.api
engine.kernels
engine.devices.cpu.limits
engine.devices.cpu.llvm
engine.devices.cpu.elementary
engine.devices.cpu.elementwise
engine.devices.cpu.codegen
engine.devices.cpu.kernels
engine.devices.cpu.gemm
engine.devices.cpu.attention
engine.devices.cpu
engine.pipeline.segment_index
engine.pipeline.fingerprint
engine.pipeline.program_ir
engine.pipeline.batching
engine.pipeline.simplify
engine.pipeline.fusion
engine.pipeline.memory_plan
engine.pipeline.launch_ir
engine.pipeline.lowering
engine.devices.cpu.lowering
engine.devices.cpu.device
engine.pipeline.single_node
engine.pipeline.budget
engine.pipeline.tiering
engine.pipeline.horizontal_fusion
engine.pipeline.record_text
engine.pipeline.program_text
engine.pipeline.program_parser
engine.pipeline.passes
engine.runtime
engine.pipeline.partition
engine.pipeline.run_program
engine.pipeline.interpreting
engine.pipeline.execution
engine.pipeline.driver
engine.backward.reachability
engine.backward.batching
engine.backward
engine.backward.replay
autograd.anomaly autograd.grad_fn
autograd.custom
autograd
tensor.memory tensor.modes tensor.arguments tensor.scalars tensor.size tensor.device tensor.determinism
tensor.reading tensor.layout tensor.meta tensor.torch_function tensor.info
tensor
functional.support
functional.elementwise
functional.shape
functional.reductions
functional.random
functional.indexing
functional.sorting
random
functional.linalg
functional.special
functional.signal
functional
weft
sparse
nn
optim compat.operator_schema
compat.aten
array_api fft func futures library linalg masked memory multiprocessing nested overrides profiler quasirandom signal \
special torch_version utils._pytree
amp as_torch data distributions io jit testing
cuda serialization
distributed debug
board onnx
compat
utils
autograd.grad_mode autograd.profiler autograd.profiler_util demo
autograd.gradient_checks __main__
autograd.gradcheck
"""  # `weft` joins what is below it. Gradient checks use the finished framework and live beside what they check.
LEVEL = {name: level for level, names in enumerate(LAYERS.split("\n")) for name in names.split()}
# Modules that wait for each other, and why.
CIRCLES = [
    # Operators of Tensor are C calls of what makes tensors (docs/decisions/0028).
    {
        "engine.frontend.inplace", "engine.frontend.meta", "engine.frontend.node_factory", "engine.frontend.recorder",
        "engine.frontend.resolve", "engine.frontend.tensor", "engine.frontend.tensor_lifecycle",
        "engine.frontend.views", "engine.frontend.write_rollback",
    },
]  # fmt: skip


def dotted(path: Path) -> str:
    """A file's module below `weft`, under the name that it is imported by; empty for the package itself."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__")
    return name.removeprefix(PYTORCHS).rstrip(".")


FILES = sorted((*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pxd")))
MODULES = {dotted(path) for path in FILES}
AT_THE_TOP = {dotted(path).split(".")[0] for path in (PACKAGE / "compat" / "torch").iterdir()}


def room_of(module: str) -> str:
    """The room of a module, or of a name in one."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        if (name := ".".join(parts[:end])) in LEVEL:
            return name
    return "compat" if parts[0] in AT_THE_TOP else "weft"


def imports_of(path: Path, source: str, types: bool = False) -> Iterator[tuple[int, str]]:
    """The line and the name below `weft` of everything that a file imports from the package; `types`: for annotations
    too."""
    folder = ["weft", *dotted(path.parent / "__init__.py").split(".")]
    names = (
        cimports_of(source)
        if path.suffix == ".pxd"
        else python_imports_of(ast.parse(source), folder, types)
    )
    for line, name in names:
        first, _, rest = name.removeprefix("cython.cimports.").partition(".")
        if first == "weft":
            yield line, rest


def cimports_of(source: str) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(source.splitlines(), 1):
        if found := re.match(r"from ([\w.]+) cimport (.*)", text):
            yield from ((line, f"{found[1]}.{name}") for name in re.findall(r"\w+", found[2]))


def python_imports_of(
    tree: ast.AST, folder: list[str], types: bool = False
) -> Iterator[tuple[int, str]]:
    """What a module in a folder imports, by its full name; `from .other` is found from the folder."""
    for node in ast.iter_child_nodes(tree):
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "later":
            yield from ((node.lineno, a.value) for a in node.args if isinstance(a, ast.Constant))
        if isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        yield from python_imports_of(node, folder, types)


def backward_imports(path: Path, source: str) -> list[str]:
    """The imports of one file that do not point to a lower room, or stay in its own."""
    own = room_of(dotted(path))
    return [
        f"{path.relative_to(PACKAGE)}:{line} imports weft.{name}"
        for line, name in imports_of(path, source)
        if (room := room_of(name)) != own and LEVEL[room] >= LEVEL[own]
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # it joins the layers and imports the upper ones lazily
    assert backward_imports(path, path.read_text()) == []


# Who asks the device and knows none by its name.
OF_EVERY_DEVICE = (
    "engine.ir.",
    "engine.frontend.",
    "engine.kernels.",
    "engine.pipeline.",
    "engine.runtime.",
    "engine.backward.",
)


# The budget and its spill file are the CPU's memory's, so far.
OF_THE_CPU = tuple(
    f"engine.pipeline.budget.{name}" for name in ("constrain", "defer", "spill_file")
)


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if dotted(p).startswith(OF_EVERY_DEVICE) and dotted(p) not in OF_THE_CPU],
    ids=dotted,
)
def test_passes_and_the_runtime_know_no_device_by_name(path: Path) -> None:
    names = [name for _, name in imports_of(path, path.read_text())]
    assert [name for name in names if name.startswith("engine.devices.cpu")] == []


def test_every_module_at_the_top_has_a_layer() -> None:
    tops = {name.split(".")[0] for name in MODULES} - AT_THE_TOP - {""}
    assert tops - {name.split(".")[0] for name in LEVEL} == set()


def test_a_backward_import_is_found() -> None:
    source = "def f():\n    from weft.nn import Linear\n    import weft.engine.ir\nnn = later('weft.nn')\n"
    assert backward_imports(PACKAGE / "engine" / "ir" / "node.py", source) == [
        "engine/ir/node.py:2 imports weft.nn.Linear",
        "engine/ir/node.py:4 imports weft.nn",
    ]
    source = "from weft.engine.frontend.tensor cimport Tensor, Storage\nfrom weft.engine.ir.node cimport Node\n"
    assert len(backward_imports(PACKAGE / "engine" / "ir" / "tape.pxd", source)) == 2


def test_modules_that_wait_for_each_other_are_known() -> None:
    assert circles(import_graph()) == CIRCLES


# Modules in circles that annotations close: a part takes what it is a part of (a graph's nodes, a module's hooks, the
# emitter), a tensor's operations what backward gives them. Lower it when there are fewer.
MOST_IN_CIRCLES_OF_TYPES = 46


def test_annotations_close_circles_of_no_more_modules() -> None:
    found = circles(import_graph(types=True))
    assert sum(map(len, found)) <= MOST_IN_CIRCLES_OF_TYPES, found


MOST_MODULES = 20  # of a folder
LARGER = {
    "compat/torch": 31,  # PyTorch's modules
}
MOST_LINES = 750  # of a module


def test_folders_hold_no_more_modules() -> None:
    folders = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    assert {f: n for f, n in folders.items() if n > LARGER.get(f, MOST_MODULES)} == {}


TESTS = Path(__file__).resolve().parents[1]
OF_NO_FOLDER = {  # of single modules, of whole rooms from outside, of the checkout; `compat/torch` is PyTorch's tree
    "autograd/derivatives", "autograd/semantics", "compat/fx", "errors", "func/fibers", "project",
}  # fmt: skip


def test_tests_lie_in_the_rooms_of_the_source() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {name for name in folders if not (PACKAGE / name).is_dir()} == OF_NO_FOLDER


# Folders whose modules are tested where they are used, and where that is.
TESTED_ELSEWHERE = {
    "compat/aten", "compat/torch", "cuda", "signal", # by names and programs: `compat`, `nn`, `project`
    "engine/devices/cpu/attention", "engine/devices/cpu/llvm",  # by kernels: `kernels`, `codegen`
    "ops/composite", "ops/contractions", "ops/structure",  # row by row, the whole table at once: `ops`
    "utils/overview",  # of what models are: `debug`, `nn`
}  # fmt: skip


def test_no_two_files_of_tests_share_a_name() -> None:
    """pytest imports them by it, from folders that are no packages."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_rooms_of_the_source_have_tests() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    tested = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    missing = {
        name
        for name in folders - tested - {"."}
        if not name.startswith("compat/torch/")
        and not any(t.startswith(f"{name}/") for t in tested)
    }
    assert missing == TESTED_ELSEWHERE


def test_modules_grow_no_longer() -> None:
    lines = {path: path.read_text().count("\n") for path in FILES}
    assert [path for path, count in lines.items() if count > MOST_LINES] == []


def import_graph(types: bool = False) -> dict[str, set[str]]:
    """For each module those that it imports, at once or in a call, or whose C functions it calls."""
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for path in FILES:
        for _, name in imports_of(path, path.read_text(), types):
            found = name if name in MODULES else name.rpartition(".")[0]
            graph[dotted(path)] |= {found} & MODULES - {dotted(path), ""}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan, 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in open_:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            component = set(open_[open_.index(module) :])
            del open_[open_.index(module) :]
            if len(component) > 1:
                found.append(component)

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(graph) == [{"a", "b", "c"}]
