"""GraphModule: a module whose `forward` is written from a graph.

It takes a graph and the module that it was traced from, and copies from that module what the graph's nodes name, by
path. `recompile` writes the code again after a pass has changed the graph. Modules, parameters and hooks are those of
any module; a pickle holds the graph as records (`Graph.__getstate__`).
"""

from __future__ import annotations

import copy
import itertools
import linecache
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, rooted
from weft.nn import Module
from weft.nn.module.members import own_values

from . import _submodules
from ._code.code_generation import PyTreeCodeGen
from ._code.folders import write_folder
from .graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_count = itertools.count()
_OWN_CLASS = "GraphModuleImpl"


def _compiled(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `forward` of a text; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_count)}"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space = dict(names)
    exec(compile(source, file, "exec", dont_inherit=True), space)
    function: Callable[..., Any] = space["forward"]
    return function


class GraphModule(Module):
    """A module that runs a graph.

    Args: `root`: a module that has what the graph names, or a dictionary of it by path; `graph`: what to run;
    `class_name`: the name of the module's class. Errors: RuntimeError where `root` misses what the graph names.

    Args:
        *args: as of the function that the class was made for.
        **kwargs: as of the function that the class was made for.

    Example:
        >>> import weft
        >>> from weft import fx
        >>> model = fx.symbolic_trace(weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.ReLU()))
        >>> [node.op for node in model.graph.nodes], model(weft.ones(1, 3)).shape
        (['placeholder', 'call_module', 'call_module', 'output'], weft.Size([1, 2]))
    """

    _graph: Graph

    def __new__(cls, *args: Any, **kwargs: object) -> GraphModule:
        """An instance of a class of its own: each has its own `forward`."""
        base = next(
            kind
            for kind in cls.__mro__
            if kind.__name__ != _OWN_CLASS and not vars(kind).get("_is_own")
        )
        made = type(_OWN_CLASS, (base,), {"_is_own": True, "__module__": base.__module__})
        return object.__new__(made)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        _submodules.take_over(self, root, graph)
        self._start(graph)

    def _start(self, graph: Graph) -> None:
        """Begin with a graph: notes and hooks are the module's own."""
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._deepcopy_hooks: list[Callable[..., Any]] = []
        self.graph = graph

    # -- the graph and its code -----------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that this module runs. Setting another one recompiles; after changes in place call `recompile`."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self._tracer_cls = graph._tracer_cls
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`. Errors: RuntimeError before there is one."""
        if "_code" not in self.__dict__:
            raise ArgumentError(
                "Code has not been generated! Please report a bug to PyTorch",
                expected="a module that was made from a graph",
                got="one without code",
                fix="call recompile()",
            )
        text: str = self._code
        return text

    def recompile(self) -> Any:
        """Write `forward` from the graph as it is now: the code that was written."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        self._lineno_map, self._prologue_start = written._lineno_map, written._prologue_start
        type(self).forward = _compiled(written.src, written.globals)  # type: ignore[method-assign]
        return written

    def __call__(self, *args: object, **kwargs: object) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            self._point_out(error)
            raise

    def _point_out(self, error: Exception) -> None:
        """Note on an error which line of the generated code it came from, if that was the last one."""
        frames = traceback.extract_tb(error.__traceback__)
        generated = [
            frame for frame in frames if frame.filename == type(self).forward.__code__.co_filename
        ]
        known = [note for note in getattr(error, "__notes__", ()) if "FX-traced Module" in note]
        if not generated or known:
            return
        line = generated[-1].lineno or 0
        around = "\n".join(self._code.splitlines()[max(0, line - 4) : line])
        error.add_note(
            f"Call using an FX-traced Module, line {line} of the traced Module's generated forward function:\n{around}"
        )

    # -- submodules -----------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, with empty modules on the way. False where something else stands on the way.

        Args:
            target: the path, with dots.
            m: the module.
        """
        return _submodules.add(self, target, m)

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path. False if there is none.

        Args:
            target: the path, with dots.
        """
        return _submodules.delete(self, target)

    def delete_all_unused_submodules(self) -> None:
        """Take away all modules that no node calls or reads, or reads something of."""
        _submodules.delete_unused(self)

    # -- copies and pickles ---------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, object]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        type(made).__name__ = type(self).__name__
        own_values(made).update(copy.deepcopy(own_values(self), memo))
        made.graph = made._graph
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = _make_graph_module(self, self.graph, type(self).__name__)
        made.meta = self.meta
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in own_values(self).items() if key not in _WRITTEN_AGAIN}
        base = next(kind for kind in type(self).__mro__ if not vars(kind).get("_is_own"))
        return reduce_graph_module, (base, type(self).__name__, state)

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write the module as a package: `module.py` with its class, and its parameters.

        Args:
            folder: where the files are written.
            module_name: the name of the class in the file. Default: 'FxModule'.
        """
        write_folder(self, Path(folder), module_name)

    # -- as text --------------------------------------------------------------------------------

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **options: object,
    ) -> str:
        """Print the code as a class, with the user's lines where the trace has noted them, and modules below.

        Args:
            print_output: print the code as well. Default: True.
            include_stride: write strides behind the shapes. Default: False.
            include_device: write devices behind the shapes. Default: False.
            colored: accepted, without effect. Default: False.
            **options: accepted, without effect.
        """
        text = self._readable(type(self).__name__)
        if print_output:
            print(text)
        return text

    def _readable(self, name: str) -> str:
        body = self._graph.python_code(root_module="self", verbose=True).src.lstrip("\n")
        head = f"class {name}({rooted('weft.nn.Module')}):"
        lines = [line for line in body.splitlines() if rooted("weft.fx") not in line]
        parts = [head + "".join(f"\n    {line}" if line.strip() else "\n" for line in lines)]
        for child, module in self.named_children():
            if isinstance(module, GraphModule):
                inner = module._readable(child)
                parts.append("\n".join(f"    {line}" for line in inner.splitlines()))
        return "\n".join(part.rstrip(" ") for part in parts)

    def nested_str(self) -> str:
        """The code, with that of modules below."""
        return self._readable(type(self).__name__)

    def __repr__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        shown = super().__repr__()
        return "\n".join([shown, self._code, reminder]) if "_code" in self.__dict__ else shown

    # -- hooks ----------------------------------------------------------------------------------

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


_WRITTEN_AGAIN = ("_code", "_lineno_map", "_prologue_start")


def _hook_methods(name: str, owner: str) -> None:
    """`_register_<name>_hook` and its counterpart, for a list of the module's."""

    def register(self: Tensor, f: Callable[..., object]) -> None:
        getattr(self, owner).append(f)

    def unregister(self: Tensor, f: Callable[..., object]) -> None:
        getattr(self, owner).remove(f)

    setattr(GraphModule, f"_register_{name}_hook", register)
    setattr(GraphModule, f"_unregister_{name}_hook", unregister)


_hook_methods("replace_node", "_replace_hooks")
for _name in ("create_node", "erase_node", "deepcopy"):
    _hook_methods(_name, f"_{_name}_hooks")


def reduce_graph_module(base: Any, class_name: str, state: dict[str, object]) -> GraphModule:
    """The module of a pickle."""
    made: GraphModule = base.__new__(base)
    type(made).__name__ = class_name
    own_values(made).update(state)
    made.graph = made._graph
    return made


def _make_graph_module(*args: Any, graph_module_cls: Any = None, **kwargs: Any) -> GraphModule:
    made: GraphModule = (graph_module_cls or GraphModule)(*args, **kwargs)
    return made
