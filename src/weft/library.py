"""`weft.library`: users' own operations, under PyTorch's names. An operation is a Python function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

from weft.autograd import Function
from weft.compat.operator_schema import infer_schema as infer_schema
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.errors import ArgumentError, NotDefinedError

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx

_extensions: dict[str, Callable[[str], object]] = {}


class CustomOpDef:
    """A function under a name; `register_autograd` gives it a derivative.

    Args:
        name: the name, `namespace::name`.
        function: what it computes.
    """

    def __init__(self, name: str, function: Callable[..., Tensor]) -> None:
        self.name, self.function = name, function
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: object, **kwargs: object) -> Any:
        result = self._result(args, kwargs)
        contexts = tapes.tape().mode.contexts
        if contexts is not None and contexts.checkpoint_policy is not None:
            contexts.checkpoint_policy.ask_custom(self, args, result)
        return result

    def _result(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        if self._backward is None and self._vmap is None:
            return self.function(*args, **kwargs)
        bound = signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._as_function(bound.kwargs).apply(*bound.args)

    @property
    def default(self) -> CustomOpDef:
        """The operation: it has one signature."""
        return self

    _opoverload = default  # PyTorch's tests ask for it by this name

    def _as_function(self, named: dict[str, Any]) -> Any:
        """`named` are the values of arguments that can only be named: they get no gradient."""
        name, function, setup, backward = self.name, self.function, self._setup, self._backward
        more = {"keyword_only_inputs": named} if named else {}

        class Operation(Function):
            """The operation as autograd sees it."""

            @staticmethod
            def forward(*args: Any) -> Any:
                """The function."""
                return function(*args, **named)

            @staticmethod
            def setup_context(ctx: FunctionCtx, inputs: object, output: object) -> None:
                """Keep the values that the derivative needs."""
                if setup is not None:
                    setup(ctx=ctx, inputs=inputs, output=output, **more)

            @staticmethod
            def backward(ctx: FunctionCtx, *cotangents: Any) -> Any:
                """The derivative. Errors: NotImplementedError where none is registered."""
                if backward is None:
                    raise NotDefinedError(
                        f"Trying to backward through {name} but no autograd formula was registered.",
                        expected="an operation with a derivative",
                        got=name,
                        fix="give it one by register_autograd",
                    )
                return backward(ctx, *cotangents)

        if self._vmap is not None:
            Operation.vmap = staticmethod(self._vmap)  # type: ignore[method-assign]
        return Operation

    def register_autograd(
        self,
        backward: Callable[..., object],
        /,
        *,
        setup_context: Callable[..., object] | None = None,
    ) -> None:
        """`backward(ctx, *cotangents)`, after `setup_context(ctx, inputs, output)` has kept what it needs, gives a
        gradient for each of `inputs`, the arguments in the order of the function's parameters. Where there are some
        that can only be named, `setup_context` is given `keyword_only_inputs`, a dictionary, too.

        Args:
            backward: a function `(ctx, *cotangents)`.
            setup_context: a function `(ctx, inputs, output)`; None: nothing is kept.

        Example:
            >>> import weft
            >>> @weft.library.custom_op("mine::square", mutates_args=())
            ... def square(x: weft.Tensor) -> weft.Tensor:
            ...     return x * x
            >>> def setup_context(ctx, inputs, output):
            ...     ctx.save_for_backward(*inputs)
            >>> square.register_autograd(
            ...     lambda ctx, grad: 2 * grad * ctx.saved_tensors[0], setup_context=setup_context
            ... )
            >>> x = weft.tensor(3.0, requires_grad=True)
            >>> square(x).backward()
            >>> x.grad
            tensor(6.)
        """
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func: Callable[..., object] | None = None, /) -> Any:
        """`func(info, in_dims, *args)` gives the result for all examples of a `vmap`, and the dimensions that they lie
        along. Without it the function is called once for each example.

        Args:
            func: a function `(info, in_dims, *args)`; None: a decorator is returned.
        """
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    def register_fake(self, fn: Callable[..., object], /) -> Callable[..., Any]:
        """Accepted: nothing is traced.

        Args:
            fn: a function of the operation's arguments.

        Example:
            >>> import weft
            >>> @weft.library.custom_op("mine::doubled", mutates_args=())
            ... def doubled(x: weft.Tensor) -> weft.Tensor:
            ...     return weft.cat([x, x])
            >>> @doubled.register_fake
            ... def shape(x):
            ...     return x.new_empty(2 * x.shape[0])
            >>> doubled(weft.ones(3, device="meta")).shape
            weft.Size([6])
        """
        return fn

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Tensor] | None = None, /
    ) -> Callable[..., Any]:
        """Another function for the CPU; those for other devices are accepted.

        Args:
            device_types: "cpu" or other kinds of device, or a list of them; None: all.
            fn: a function of the operation's arguments; None: a decorator is returned.
        """

        def register(function: Callable[..., Tensor]) -> Callable[..., Any]:
            if device_types is None or "cpu" in device_types:
                self.function = function
            return function

        return register if fn is None else register(fn)


def custom_op(
    name: str,
    fn: Callable[..., Tensor] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """A decorator that makes an operation `namespace::name` of a function.

    Args:
        name: the name, `namespace::name`.
        fn: the function; None: this is used as a decorator.
        mutates_args: the names of arguments that the function changes: nothing depends on it here.
        device_types: the devices that the function is for: it is taken for the CPU in any case; None: all.
        schema: accepted: signatures are those of the functions; None: the same.

    Errors: ValueError for a name without a namespace.

    Example:
        >>> import weft
        >>> @weft.library.custom_op("mine::twice", mutates_args=())
        ... def twice(x: weft.Tensor) -> weft.Tensor:
        ...     return x * 2
        >>> twice(weft.ones(2))
        tensor([2., 2.])
    """
    if "::" not in name:
        raise ArgumentError(
            f"custom_op: {name!r} has no namespace",
            expected="a name such as 'mylib::mysin'",
            got=repr(name),
            fix=f"call it 'mylib::{name}'",
        )
    if fn is None:
        return lambda function: _kept(CustomOpDef(name, function))
    return _kept(CustomOpDef(name, fn))


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    schema: str | None = None,
) -> Any:
    """`custom_op`, for functions that launch kernels of their own on other devices: nothing looks into them here.

    Args:
        name: the name, `namespace::name`.
        fn: the function; None: this is used as a decorator.
        mutates_args: the names of arguments that the function changes: nothing depends on it here.
        schema: accepted: signatures are those of the functions; None: the same.
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: object, /) -> Any:
    """The kernel itself: nothing is traced.

    Args:
        triton_kernel: a kernel, or anything.
    """
    return triton_kernel


_operations: dict[str, CustomOpDef] = {}


def _kept(operation: CustomOpDef) -> CustomOpDef:
    """The operation, which `weft.ops.namespace.name` finds from now on."""
    _operations[operation.name] = operation
    return operation


def _named(op: str | CustomOpDef) -> CustomOpDef:
    """Errors: RuntimeError where no operation has the name."""
    found = _operations.get(op) if isinstance(op, str) else op
    if found is None:
        raise ArgumentError(
            f"operator {op} does not exist",
            expected=f"one of {sorted(_operations)}",
            got=repr(op),
            fix=f"define it: custom_op({op!r}, function, mutates_args=())",
        )
    return found


class OpNamespace:
    """`weft.ops.namespace`: the operations that have been defined under it.

    Args:
        name: its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        try:
            return _operations[f"{self._name}::{name}"]
        except KeyError:
            find = _extensions.get(self._name)
            if find is not None and (found := find(f"{self._name}.{name}")) is not None:
                return found  # type: ignore[return-value]
            raise AttributeError(
                f"'weft.ops.{self._name}' object has no attribute {name!r}"
            ) from None


def extend_namespace(name: str, find: Callable[[str], object]) -> None:
    """Have a namespace hold operators that a part of the framework has.

    Args:
        name: the namespace.
        find: gives the operator of a name, with the namespace and a dot before it, or None.
    """
    _extensions[name] = find


def namespace(name: str) -> OpNamespace:
    """The namespace, whether or not operations have been defined under it yet.

    Args:
        name: its name.
    """
    return OpNamespace(name)


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., Tensor],
    /,
    *,
    setup_context: Any = None,
    lib: object = None,
) -> None:
    """Give an operation its derivative, as `CustomOpDef.register_autograd`.

    Args:
        op: the operation, or its name.
        backward: `backward(ctx, *cotangents)`: a gradient for each argument.
        setup_context: `setup_context(ctx, inputs, output)` keeps what `backward` needs; None: it needs nothing.
        lib: accepted: operations live until the program ends; None: the same.

    Errors: RuntimeError on an unknown name.

    Example:
        >>> import weft
        >>> @weft.library.custom_op("mine::cube", mutates_args=())
        ... def cube(x: weft.Tensor) -> weft.Tensor:
        ...     return x**3
        >>> def backward(ctx, grad):
        ...     return grad * 3 * ctx.saved_tensors[0] ** 2
        >>> def setup_context(ctx, inputs, output):
        ...     ctx.save_for_backward(*inputs)
        >>> weft.library.register_autograd(cube, backward, setup_context=setup_context)
        >>> x = weft.tensor(2.0, requires_grad=True)
        >>> cube(x).backward()
        >>> x.grad
        tensor(12.)
    """
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(
    op: str | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Tensor] | None = None,
    /,
    *,
    lib: object = None,
) -> Any:
    """Another function for an operation, as `CustomOpDef.register_kernel`.

    Args:
        op: the operation, or its name.
        device_types: the devices that the function is for, such as "cpu"; None: all.
        func: the function; None: this is used as a decorator.
        lib: accepted: operations live until the program ends; None: the same.

    Errors: RuntimeError on an unknown name.

    Example:
        >>> import weft
        >>> @weft.library.custom_op("mine::negated", mutates_args=())
        ... def negated(x: weft.Tensor) -> weft.Tensor:
        ...     return 0 - x
        >>> @weft.library.register_kernel("mine::negated", "cpu")
        ... def on_cpu(x):
        ...     return -x
        >>> negated(weft.ones(2))
        tensor([-1., -1.])
    """
    return _named(op).register_kernel(device_types, func)


def register_fake(
    op: object, func: Callable[..., object] | None = None, /, **options: object
) -> Any:
    """Accepted: nothing is traced.

    Args:
        op: the operation, or its name.
        func: a function, which is returned; None: this is used as a decorator.
        **options: accepted, without effect.
    """
    return (lambda function: function) if func is None else func


register_autocast = register_vmap = register_torch_dispatch = impl_abstract = register_fake


# -- operations by declaration -----------------------------------------------------------------------------------------


def fallthrough_kernel() -> None:
    """Not called: as an implementation it means that a key has none."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# Keys under which a function is what runs here; the last of them that has been given does.
_RUNS = (
    "", "default", "cpu", "CPU", "types", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd",
    "AutogradCPU",
)  # fmt: skip


def _declared(name: str) -> CustomOpDef:
    """A new operation without a function."""

    def missing(*args: object, **kwargs: object) -> Any:
        raise NotDefinedError(
            f"{name}: the operation has been declared and has no function for the CPU",
            expected="a function",
            got="none",
            fix=f"give it one: weft.library.impl({name!r}, 'cpu', function)",
        )

    return _kept(CustomOpDef(name, missing))


def define(qualname: str, schema: object, *, lib: object = None, tags: object = ()) -> None:
    """Declare an operation `namespace::name`, whose function `impl` gives.

    Args:
        qualname: the name, `namespace::name`.
        schema: accepted: signatures are those of the functions.
        lib: accepted: operations live until the program ends; None: the same.
        tags: accepted, without effect.

    Example:
        >>> import weft
        >>> weft.library.define("mine3::half", "(Tensor x) -> Tensor")
        >>> _ = weft.library.impl("mine3::half", "CPU", lambda x: x / 2)
        >>> weft.ops.mine3.half(weft.ones(2))
        tensor([0.5000, 0.5000])
    """
    _declared(qualname)


def impl(qualname: str, types: str | Sequence[str], func: Any = None, *, lib: object = None) -> Any:
    """Give a declared operation its function for the CPU; those for other devices are accepted. Also a decorator.

    Args:
        qualname: the name, `namespace::name`; or, in the older form, a `Library`.
        types: the devices or keys that the function is for; in the older form the name.
        func: the function; None: this is used as a decorator. In the older form the key.
        lib: accepted: operations live until the program ends; None: the same.

    Example:
        >>> import weft
        >>> weft.library.define("mine4::half", "(Tensor x) -> Tensor")
        >>> @weft.library.impl("mine4::half", "CPU")
        ... def half(x):
        ...     return x / 2
        >>> weft.ops.mine4.half(weft.ones(2))
        tensor([0.5000, 0.5000])
    """
    if isinstance(qualname, Library):  # the older form: library, name, key
        return lambda function: qualname.impl(types, function, func or "")
    if func is None:
        return lambda function: impl(qualname, types, function)
    keys = (types,) if isinstance(types, str) else types
    if any(key in _RUNS for key in keys):
        _named(qualname).function = func
    return func


class Library:
    """A namespace in which operations are declared and given functions.

    Args:
        ns: the namespace.
        kind: "DEF", "IMPL" or "FRAGMENT": nothing depends on it here.
        dispatch_key: the key of functions that are given without one, such as "CPU".

    Example:
        >>> import weft
        >>> lib = weft.library.Library("mine2", "DEF")
        >>> lib.define("thrice(Tensor x) -> Tensor")
        'thrice'
        >>> lib.impl("thrice", lambda x: x * 3)
        >>> weft.ops.mine2.thrice(weft.ones(2))
        tensor([3., 3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Declare `name(Tensor x) -> Tensor`. Returns: the name.

        Args:
            schema: the name and the types of the parameters and results.
            alias_analysis: accepted. Default: ''.
            tags: accepted. Default: ().

        Example:
            >>> import weft
            >>> lib = weft.library.Library("mine5", "DEF")
            >>> lib.define("thrice(Tensor x) -> Tensor")
            'thrice'
        """
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(
        self, op_name: object | str, fn: object | str, dispatch_key: str = "", **options: object
    ) -> None:
        """Give an operation its function for a key.

        Args:
            op_name: the name of the operation.
            fn: the function.
            dispatch_key: the kind of device that it is for, "CPU" or
                "CompositeImplicitAutograd". Default: ''.
            **options: accepted, without effect.

        Example:
            >>> import weft
            >>> lib = weft.library.Library("mine6", "DEF")
            >>> name = lib.define("thrice(Tensor x) -> Tensor")
            >>> lib.impl("thrice", lambda x: x * 3)
            >>> weft.ops.mine6.thrice(weft.ones(2))
            tensor([3., 3.])
        """
        name = str(getattr(op_name, "name", op_name)).rpartition("::")[2]
        key = dispatch_key or self.dispatch_key
        if fn is not fallthrough_kernel and f"{self.ns}::{name}" in _operations:
            impl(f"{self.ns}::{name}", key, fn)

    def fallback(
        self, fn: Callable[..., object], dispatch_key: str = "", **options: object
    ) -> None:
        """Accepted: every operation has its function.

        Args:
            fn: accepted, without effect.
            dispatch_key: accepted, without effect. Default: ''.
            **options: accepted, without effect.
        """

    def _register_fake(self, op_name: object, fn: Callable[..., object], **options: object) -> None:
        """Accepted: nothing is traced."""


@contextmanager
def _scoped_library(ns: str, kind: str, dispatch_key: str = "") -> Iterator[Library]:
    """A library whose operations are there until the block ends."""
    before = set(_operations)
    made = Library(ns, kind, dispatch_key)
    try:
        yield made
    finally:
        for name in set(_operations) - before:
            if name.startswith(f"{ns}::"):
                del _operations[name]


def get_ctx() -> NoReturn:
    """Errors: NotImplementedError, which is a RuntimeError: no operation is being traced."""
    raise NotDefinedError(
        "get_ctx() can only be called inside of an abstract implementation",
        expected="an operation that is being traced",
        got="an ordinary call",
        fix="compute the result of the operation from its inputs",
    )
