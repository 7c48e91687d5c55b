"""Proxy: stands for a value while a program is traced, and records what the program does with it.

Functions of Weft ask types with `__torch_function__` first (`weft.engine.dispatch.torch_function`): so a call with a
proxy among its arguments becomes a node. Operators, attributes and methods of a proxy are recorded here. A value that
does not exist yet cannot be read: `if`, `for`, `len` and `int` are refused with PyTorch's words.
"""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from weft import Tensor
from weft.errors import ArgumentError, WeftError
from weft.functional.assertions import _assert

from ._arguments import NodeMaker
from ._code.node_code import magic_methods, reflectable_magic_methods
from ._tracing.passed_arguments import as_passed
from ._tracing.scopes import Scope, ScopeContextManager
from .graph import Graph
from .node import Node, map_aggregate

if TYPE_CHECKING:
    from weft.compat.torch.fx.node import Argument


__all__ = [
    "Attribute", "GraphAppendingTracer", "MetaProxy", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip


class TraceError(WeftError, ValueError):
    """A program that asks a value that is being traced for what only a number has."""


class TracerBase(NodeMaker):
    """Makes nodes and proxies. It answers what a program asks a proxy: a user's own tracer can answer otherwise."""

    def proxy(self, node: Node) -> Any:
        """The proxy of a node's value.

        Args:
            node: the node that the proxy stands for.
        """
        return Proxy(node, self)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy, which is unknown. Errors: TraceError.

        Args:
            obj: the proxy whose truth is asked for.
        """
        raise _trace_error(
            "symbolically traced variables cannot be used as inputs to control flow",
            obj,
            "make the choice an argument and fix it: symbolic_trace(f, concrete_args={...}); or keep the choice in a "
            "function that is marked by weft.fx.wrap, or in a module that is a leaf",
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The items of a proxy. Errors: TraceError.

        Args:
            obj: the proxy that is iterated over.
        """
        raise _trace_error(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors",
            obj,
            "go through a range of known length: for i in range(n): x[i]",
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a proxy: a proxy of them.

        Args:
            obj: the proxy whose keys are asked for.
        """
        return Attribute(obj, "keys")()


def _trace_error(what: str, obj: Proxy, fix: str) -> TraceError:
    got = f"{obj!r}, the value of {obj.node.format_node()}"
    return TraceError(what, expected="steps that do not depend on traced values", got=got, fix=fix)


class GraphAppendingTracer(TracerBase):
    """Records behind the nodes of a graph what is done to its proxies: passes write nodes as if they computed."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}


class Proxy:
    """A value that is being traced; `node` is what makes it.

    Args:
        node: the node that it stands for.
        tracer: what records; None: that of the node's graph.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        return Attribute(self, name)

    def __fx_create_arg__(self, tracer: NodeMaker) -> Node:
        return self.node

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, object]) -> Proxy:
        import copy

        made = type(self).__new__(type(self))
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in vars(self).items()})
        return made

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __iter__(self) -> Iterator[Any]:
        """As many items as the caller has names for: `a, b = proxy`. Errors: TraceError anywhere else."""
        instruction = _instruction_of(inspect.currentframe())
        if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
            return (self[index] for index in range(instruction.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assert(inspect.currentframe()):
            self.tracer.create_proxy("call_function", _assert, (self, ""), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The keys for `**proxy`, as the tracer answers."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise ArgumentError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope",
            expected="a program whose steps do not depend on lengths",
            got=f"len({self!r})",
            fix="write x.size(0), or call weft.fx.wrap('len') where the module begins",
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """A call of a function of Weft with a proxy among its arguments."""
        kwargs = kwargs or {}
        tracer = _tracer_of(orig_method, args, kwargs)
        if _is_method(orig_method, args):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        args, kwargs = as_passed(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


def _tracer_of(
    function: Callable[..., object], args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> TracerBase:
    """The one tracer of the proxies among the arguments."""
    tracers: dict[TracerBase, None] = {}

    def note(leaf: object) -> Any:
        if isinstance(leaf, Proxy):
            tracers.setdefault(leaf.tracer)
        return leaf

    map_aggregate((tuple(args), dict(kwargs)), note)
    if len(tracers) != 1:
        raise ArgumentError(
            f"Found multiple different tracers {list(tracers)} while trying to trace operations {function}",
            expected="proxies of one trace",
            got=f"those of {len(tracers)}",
            fix="give each Proxy the same tracer: Proxy(node, tracer)",
        )
    return next(iter(tracers))


def _is_method(function: Callable[..., object], args: tuple[Argument, ...]) -> bool:
    """True if a call is one of a method of a tensor that is a constant: `self.buffer + x`. Function and method are one
    object here, so that `torch.add(self.buffer, x)` is recorded as `self.buffer.add(x)`."""
    name = getattr(function, "__name__", "")
    if not args or not isinstance(args[0], Tensor):
        return False
    return Tensor.__dict__.get(name) is function


# -- what the caller does ------------------------------------------------------------------------------------------


def _instruction_of(frame: FrameType | None) -> dis.Instruction | None:
    """The instruction that has led to a call of a special method: that of the frame behind `frame`."""
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return None
    found = (step for step in dis.get_instructions(caller.f_code) if step.offset == caller.f_lasti)
    return next(found, None)


def _is_assert(frame: FrameType | None) -> bool:
    """True if the caller's next instructions are those of a failing `assert`."""
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return False
    steps = list(dis.get_instructions(caller.f_code))
    here = next((i for i, step in enumerate(steps) if step.offset == caller.f_lasti), None)
    if here is None or "POP_JUMP" not in steps[here].opname or "TRUE" not in steps[here].opname:
        return False
    return any(step.opname == "LOAD_ASSERTION_ERROR" for step in steps[here + 1 : here + 2])


# -- other proxies -------------------------------------------------------------------------------------------------


class Attribute(Proxy):
    """An attribute of a proxy. Called, it is a method; its own node is made when something else uses it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape is known: `param_shapes_constant` lets programs ask for it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Tensor):
            raise TypeError(f"expected a Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self, *args: object) -> Any:
        """The sizes, or one."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.param.dim()

    def numel(self) -> int:
        """The number of elements."""
        return self.param.numel()

    nelement = numel


class MetaProxy(Proxy):
    """A proxy that carries what is known of its value."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"


def _operator(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def recorded(*args: Any, **kwargs: object) -> Any:
        return args[0].tracer.create_proxy("call_function", function, args, kwargs)

    recorded.__name__ = name
    return recorded


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def recorded(self: Proxy, other: object) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    recorded.__name__ = f"r{name}"
    return recorded


for _name in magic_methods:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in reflectable_magic_methods:
    if _name != "getitem":
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
