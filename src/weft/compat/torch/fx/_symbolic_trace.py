"""Tracer: runs a program with proxies in place of its arguments, and records it as a graph.

`Tracer` decides which modules are one node (leaf modules) and which are traced; subclasses decide otherwise.
`_tracing.interception` brings calls here, `proxy` records what proxies do, `_tracing.placeholders` turns arguments into
placeholders.
"""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from weft import Tensor
from weft.nn import Module, Parameter, Sequential

from ._code.names import is_of_library
from ._tracing import interception
from ._tracing.interception import _wrapped_fns_to_patch, _wrapped_methods_to_patch
from ._tracing.placeholders import PH, PHBase, PHWithMeta, placeholders_for
from ._tracing.scopes import Scope, ScopeContextManager
from .graph import Graph
from .graph_module import GraphModule, _make_graph_module
from .node import Argument
from .proxy import ParameterProxy, TracerBase

__all__ = ["PH", "PHBase", "PHWithMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_proxyable_classes: dict[type, None] = {}
_ = (_wrapped_fns_to_patch, _wrapped_methods_to_patch)  # what packages look into


def is_fx_tracing() -> bool:
    """True if this thread traces."""
    return interception.current() is not None


_is_fx_tracing_flag = False  # what packages read; see `is_fx_tracing`


class ProxyableClassMeta(type):
    """Of classes whose instances are made inside traced programs: making one of proxies is a node.

    Args:
        name: its name in the graph and in the code.
        bases: the classes that it derives from.
        attrs: the members of its body.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, object]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        proxy = interception.first_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Traces a module or function: `Tracer().trace(root)` is its graph.

    Args: `autowrap_modules`: modules of Python whose functions are recorded like those that are marked by `wrap`;
    `autowrap_functions`: more of these; `param_shapes_constant`: shapes of parameters are numbers.

    Args:
        autowrap_modules: modules of Python whose functions are recorded as calls.
        autowrap_functions: functions that are recorded as calls.
        param_shapes_constant: shapes of parameters are numbers, not nodes. Default: False.

    Example:
        >>> import weft
        >>> from weft import fx
        >>> class Deep(fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return False  # record what layers do, not that they are called
        >>> [node.name for node in Deep().trace(weft.nn.Sequential(weft.nn.ReLU())).nodes]
        ['input_1', 'relu', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Tensor], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: dict[str, Any] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.tensor_attrs: dict[Any, str] = {}
        self.root: Any = Module()

    # -- what subclasses decide -----------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """True if a call of a module is one node: layers of the library are, `Sequential` is not.

        Args:
            m: the module.
            module_qualified_name: its path, with dots.
        """
        is_layer = type(m).__module__.startswith(("weft.nn", "torch.nn"))
        return is_layer and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module below the root. Errors: NameError where it is none.

        Args:
            mod: the module.
        """
        paths = self.submodule_paths
        if not paths:
            paths = {module: name for name, module in self.root.named_modules()}
        path = paths.get(mod)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self,
        m: Module,
        forward: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Any:
        """A call of a module: one node, or what its `forward` does.

        Args:
            m: the module.
            forward: what would be called.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        path = self.path_of_module(m)
        calls = self.num_calls[path] = self.num_calls.get(path, -1) + 1
        key = f"{path}@{calls}" if calls else path
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            self.module_stack[key] = path, type(m)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                del self.module_stack[key]

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, object]) -> Any:
        """The reading of a member of a module: parameters are nodes, buffers if `proxy_buffer_attributes` says so.

        Args:
            attr: the name of the attribute.
            attr_val: the value that it has.
            parameter_proxy_cache: the proxies that parameters have.
        """
        return self._module_getattr(attr, attr_val, parameter_proxy_cache)

    def _module_getattr(
        self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, object]
    ) -> Any:
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        for path, member in members:
            if member is attr_val:
                if path not in parameter_proxy_cache:
                    parameter_proxy_cache[path] = self._member_proxy(path, attr_val)
                return parameter_proxy_cache[path]
        return attr_val

    def _member_proxy(self, path: str, value: object) -> Any:
        options: dict[str, Any] = {}
        if self.param_shapes_constant and isinstance(value, Parameter):
            options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, path, value)
        return self.create_proxy("get_attr", path, (), {}, **options)

    def _proxy_placeholder(
        self, name: str, concrete_args: object, sig: inspect.Signature, fn_for_analysis: Any
    ) -> Any:
        from ._tracing.placeholders import placeholder

        return placeholder(self, name, concrete_args, sig, fn_for_analysis)

    def create_args_for_root(
        self, root_fn: Callable[..., object], is_module: bool, concrete_args: object = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function to call in the program's place, and its proxies.

        Args:
            root_fn: the function that is recorded.
            is_module: it is a method of a module.
            concrete_args: values of parameters that are not recorded, by name; None: none.
        """
        return placeholders_for(self, root_fn, is_module, concrete_args)

    # -- arguments ------------------------------------------------------------------------------

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name with a number that the root has not.

        Args:
            prefix: what the name begins with.
        """
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: object) -> Argument:
        """The argument of a node for a value that a program passes; tensors and modules are read from the root.

        Args:
            a: an argument, in containers or not.
        """
        if isinstance(a, Parameter):
            return self._owned(
                a, self.root.named_parameters(), "parameter is not a member of this module"
            )
        if isinstance(a, Tensor):
            return self._tensor(a)
        if isinstance(a, Module):
            return self._owned(a, self.root.named_modules(), None) or super().create_arg(a)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), args, {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _owned(self, value: object, members: Any, missing: str | None) -> Argument:
        for path, member in members:
            if member is value:
                return self.create_node("get_attr", path, (), {})
        if missing is not None:
            raise NameError(missing)
        return None

    def _tensor(self, tensor: Tensor) -> Argument:
        """The reading of a buffer, or of a constant, which becomes one."""
        found = self._owned(tensor, self.root.named_buffers(), None)
        if found is not None:
            return found
        path = self.tensor_attrs.get(tensor)
        if path is None:
            path = self.tensor_attrs[tensor] = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, path, tensor)
        return self.create_node("get_attr", path, (), {})

    # -- tracing --------------------------------------------------------------------------------

    def trace(
        self, root: Module | Callable[..., object], concrete_args: dict[str, object] | None = None
    ) -> Graph:
        """The graph of a module's `forward`, or of a function. `concrete_args` fixes arguments by name.

        Args:
            root: the module or function that is recorded.
            concrete_args: values of parameters that are not recorded, by name; None: none.
        """
        is_module = isinstance(root, Module)
        if isinstance(root, Module):
            self.root, function = root, getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
        else:
            self.root, function = Module(), root
        self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = _tensors_of(self.root)
        self._parameter_proxies: dict[str, Any] = {}
        with interception.Patches() as self._patches:
            self._run(function, is_module, concrete_args)
        self.submodule_paths = None
        return self.graph

    def _run(self, function: Callable[..., object], is_module: bool, concrete_args: object) -> None:
        """Call the program with proxies, and record what it returns."""
        called, arguments = self.create_args_for_root(function, is_module, concrete_args)
        interception.patch_marked(self._patches)
        self._see_globals(getattr(inspect.unwrap(function), "__globals__", None))
        for module in self._autowrap_search:
            self._see_globals(vars(module))
        with interception.intercepted_by(self):
            result = self.create_arg(called(*arguments))
        notes = {} if is_of_library(function) else getattr(function, "__annotations__", {})
        self.create_node("output", "output", (result,), {}, type_expr=notes.get("return"))

    def _see_globals(self, names: dict[str, object] | None) -> None:
        """The program comes to a module of Python: have its marked functions record."""
        if names is not None:
            interception.patch_globals(self._patches, names, self._autowrap_function_ids)

    def _member(self, name: str, value: object) -> Any:
        return self.getattr(name, value, self._parameter_proxies)

    def __deepcopy__(self, memo: dict[int, object]) -> Tracer:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made


def _tensors_of(root: Module) -> dict[Any, str]:
    """The tensors that modules hold as plain attributes, by themselves, and their paths."""
    found: dict[Any, str] = {}
    for path, module in root.named_modules():
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                found[value] = f"{path}.{name}" if path else name
    return found


def symbolic_trace(root: Any, concrete_args: dict[str, object] | None = None) -> GraphModule:
    """A module that does what a module or function does, with its graph, to be looked at and changed.

    Calls of layers and functions become nodes; what depends on traced values is refused (`TraceError`).

    >>> import weft
    >>> traced = weft.fx.symbolic_trace(lambda x: weft.relu(x) + 1)
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'relu', 'add', 'output']

    Args:
        root: the module or function that is recorded.
        concrete_args: values of parameters that are not recorded, by name; None: none.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


def wrap(fn_or_name: object) -> Any:
    """Mark a function, or the name of one in the calling module: calls with traced values are recorded as they are.

    Args:
        fn_or_name: the function, or its name.

    Errors: NotImplementedError where it is called inside a function.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    assert caller is not None
    return interception.mark(fn_or_name, caller.f_globals, caller.f_code.co_name)
