"""Parametrizations: a parameter computed from others each time it is read.

`register_parametrization(module, "weight", part)` moves the parameter to `module.parametrizations.weight.original` and
puts a property into a class made for this module; the property gives `part(original)`. Several parts are applied in
order. Parts with `right_inverse` take assignments back to the original.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import weft
from weft import Tensor
from weft.errors import ArgumentError, NotDefinedError, ShapeError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.modules.container import ModuleDict, ModuleList
from weft.nn.parameter import Parameter
from weft.nn.utils import parametrize_checks as checks

_caching = 0
_cache: dict[tuple[int, str], Any] = {}


class ParametrizationList(ModuleList):
    """The parts of one parametrization, and the original tensors (`original`, or `original0`, `original1`, ...).

    Args:
        modules: the parts, the first of which is applied first.
        original: the tensor that is parametrized.
        unsafe: True: shapes and types may change, and are not checked. Default: False.

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> class Symmetric(weft.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).mT
        >>> layer = parametrize.register_parametrization(weft.nn.Linear(2, 2), "weight", Symmetric())
        >>> layer.parametrizations.weight
        ParametrizationList(
          (0): Symmetric()
        )
        >>> weft.equal(layer.weight, layer.weight.mT)
        True
    """

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        if not modules:
            raise ArgumentError(
                "ParametrizationList requires one or more modules.",
                expected="at least one parametrization",
                got="none",
                fix="pass those of register_parametrization",
            )
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with weft.no_grad():
            new: Any = original
            for part in reversed(modules):
                if hasattr(part, "right_inverse"):
                    with suppress(NotImplementedError):  # it has no inverse for this configuration
                        new = part.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        values = [new] if self.is_tensor else checks.several(new)
        self.ntensors = len(values)
        self._keep(original, values)
        if not unsafe:
            with weft.no_grad():
                checks.registered(self(), shape, dtype)

    def _keep(self, original: Tensor, values: Sequence[Tensor]) -> None:
        """Register the originals: the tensor itself where there is one."""
        if self.is_tensor:
            text = "When `right_inverse` outputs one tensor, it may not change the dtype."
            checks.same_dtype(text, original, values[0])
            _give(original, values[0])
            _register(self, "original", original)
            return
        for number, value in enumerate(values):
            if isinstance(original, Parameter) and not isinstance(value, Parameter):
                value = Parameter(value, original.requires_grad)
            _register(self, f"original{number}", value)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{number}") for number in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrization gives `value`.

        Args:
            value: what the tensor shall be.

        Raises:
            RuntimeError, ValueError.
        """
        new: Any = value
        with weft.no_grad():
            for part in reversed(list(self.children())):
                if not hasattr(part, "right_inverse"):
                    raise NotDefinedError(
                        f"parametrization {type(part).__name__} does not implement right_inverse.",
                        expected="a method right_inverse(self, value)",
                        got=type(part).__name__,
                        fix="define it, or set the original",
                    )
                new = part.right_inverse(new)
        if self.is_tensor:
            values: Sequence[Tensor] = [checks.one_tensor("`right_inverse`", new)]
        else:
            values = checks.several(new)
            checks.same_number(values, self.ntensors)
        for old, new in zip(self._originals(), values, strict=True):
            checks.same_dtype("The tensor that is assigned has another dtype.", old, new)
            _give(old, new)

    def forward(self) -> Tensor:
        """The value, computed."""
        parts = list(self.children())
        x: Tensor = parts[0](*self._originals())
        for part in parts[1:]:
            x = part(x)
        return x


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _give(tensor: Tensor, new: Tensor) -> None:
    """A new value in place; another shape by replacement."""
    if new is tensor:
        return
    with weft.no_grad():
        if tuple(new.shape) == tuple(tensor.shape):
            tensor.copy_(new)
        else:
            tensor.data = new.detach()


@contextmanager
def cached() -> Iterator[None]:
    """Within it, every parametrized tensor is computed once.

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> layer = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(3, 3))
        >>> with parametrize.cached():  # each weight is computed once, however often it is read
        ...     print(layer.weight is layer.weight)
        True
    """
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _read(module: Module, name: str) -> Tensor:
    if not _caching:
        return module.parametrizations[name]()  # type: ignore[no-any-return]
    key = (id(module), name)
    if key not in _cache:
        _cache[key] = module.parametrizations[name]()
    return _cache[key]  # type: ignore[no-any-return]


def _make_class(module: Module) -> None:
    """A class of its own for a module, into which properties can be put."""
    plain = type(module)

    def refuse(self: object) -> Any:
        raise ShapeError(
            "Serialization of parametrized modules is only supported through state_dict().",
            expected="state_dict()",
            got="pickling",
            fix="save module.state_dict()",
        )

    def copied(self: Any, memo: dict[int, object]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        made = self.__new__(type(self))
        memo[id(self)] = made
        own_values(made).update(copy.deepcopy(own_values(self), memo))
        _make_class_again(made, plain, list(made.parametrizations))
        return made

    own = {"__getstate__": refuse, "__deepcopy__": copied, "_plain": plain}
    module.__class__ = type(f"Parametrized{plain.__name__}", (plain,), own)


def _make_class_again(module: Module, plain: type, names: list[str]) -> None:
    module.__class__ = plain
    _make_class(module)
    for name in names:
        _put_property(module, name)


def _put_property(module: Module, name: str) -> None:
    def read(self: Any) -> Tensor:
        return _read(self, name)

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if a module (or one of its tensors) is parametrized.

    Args:
        module: the module.
        tensor_name: the name of a parameter or buffer; None: any.

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> layer = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(3, 3))
        >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
        (True, False)
    """
    found = own_values(module).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by `parametrization` of what it was (which `right_inverse`
    gives, where there is one), or of what the parametrizations before give.

    Args:
        module: the module that has the tensor.
        tensor_name: the name of a parameter or buffer.
        parametrization: a module from what is kept to what the tensor is.
        unsafe: True: shape and type may change, and are not checked. Default: False.

    Raises:
        ValueError where that changes its shape or type, unless that is meant (`unsafe`).

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> class Symmetric(weft.nn.Module):
        ...     def forward(self, w):
        ...         return w.triu() + w.triu(1).mT
        >>> layer = parametrize.register_parametrization(weft.nn.Linear(3, 3), "weight", Symmetric())
        >>> weft.equal(layer.weight, layer.weight.mT)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            checks.another(parametrization, getattr(module, tensor_name), tensor_name)
        parts = module.parametrizations[tensor_name]
        parts.append(parametrization)
        parts.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ArgumentError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'",
            expected="the name of a parameter or buffer",
            got=repr(tensor_name),
            fix="list them with named_parameters()",
        )
    parts = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _make_class(module)
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = parts
    _put_property(module, tensor_name)
    return module


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor plain again: with its computed value, or with what it was.

    Args:
        module: the module.
        tensor_name: the name of the tensor.
        leave_parametrized: True: with its computed value; False: with what it was, which
            needs one original. Default: True.

    Raises:
        ArgumentError.

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> layer = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(3, 3))
        >>> _ = parametrize.remove_parametrizations(layer, "weight")
        >>> parametrize.is_parametrized(layer)
        False
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(
            f"Module {module} does not have a parametrization on {tensor_name}",
            expected="a parametrized tensor",
            got=repr(tensor_name),
            fix="ask is_parametrized first",
        )
    parts = module.parametrizations[tensor_name]
    if not leave_parametrized and not parts.is_tensor:
        raise ArgumentError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
            "terms of a sequence of tensors.",
            expected="leave_parametrized=True",
            got="several originals",
            fix="leave it parametrized",
        )
    first = parts._originals()[0]
    value = parts().detach() if leave_parametrized else first.detach()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
        module.__class__ = type(module)._plain  # type: ignore[attr-defined]
    if isinstance(first, Parameter):
        if parts.is_tensor:
            first.data = value
        value = first if parts.is_tensor else Parameter(value, first.requires_grad)
    _register(module, tensor_name, value)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had.

    Args:
        module: the module.

    Example:
        >>> import weft
        >>> from weft.nn.utils import parametrize
        >>> layer = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(3, 3))
        >>> parametrize.type_before_parametrizations(layer).__name__
        'Linear'
    """
    found: type = type(module)._plain if is_parametrized(module) else type(module)  # type: ignore[attr-defined]
    return found


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the parametrizations of this one, and their originals.

    Args:
        from_module: the module that is parametrized.
        to_module: the module that becomes so.
        tensor_name: the name of a tensor; None: all.
    """
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name else list(from_module.parametrizations)
    for name in names:
        parts = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            with weft.no_grad():
                _register(to_module, name, Parameter(getattr(from_module, name)))
        for part in parts:
            register_parametrization(to_module, name, part, unsafe=parts.unsafe)
        mine = to_module.parametrizations[name]._originals()
        for old, new in zip(mine, parts._originals(), strict=True):
            _give(old, new)
    return to_module
