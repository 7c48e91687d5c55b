"""The common part of pruning methods: the hook that puts zeros into a parameter, and several of them on one parameter.

A pruned module has `NAME_orig` as the parameter, `NAME_mask` as a buffer, and NAME computed from both before each
forward. The methods in `prune` choose the elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import weft
from weft import Tensor
from weft._typing import Shape
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    AssertedError,
    DimensionError,
    MissingError,
)
from weft.nn.module.module import Module
from weft.nn.utils.weight_hooks import need_module


def hooks_of(module: Module) -> list[tuple[int, Any]]:
    """The pruning of a module's parameters, by the number of its hook."""
    if module._hooks is None:
        return []
    found = [(number, hook.function) for number, hook in module._hooks.forward_pre.items()]
    return [pair for pair in found if isinstance(pair[1], BasePruningMethod)]


def need_parameter(module: Module, name: str) -> None:
    """Errors: ArgumentTypeError, MissingError."""
    need_module(module, name)
    if not isinstance(getattr(module, name, None), Tensor):
        raise MissingError(
            f"'{type(module).__name__}' object has no attribute '{name}'",
            expected="the name of a parameter",
            got=repr(name),
            fix="list them with named_parameters()",
        )


def _check_scores(scores: object, shape: Shape, what: str) -> None:
    """Errors: AssertedError."""
    if not isinstance(scores, Tensor) or tuple(scores.shape) != tuple(shape):
        have = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise AssertedError(
            f"importance_scores should have the same shape as {what}, got {have} vs {tuple(shape)}",
            expected=f"a tensor of shape {tuple(shape)}",
            got=str(have),
            fix="give each element its score",
        )


def check_dim(t: Tensor, dim: int) -> None:
    """Errors: DimensionError."""
    if not isinstance(dim, int) or not -t.dim() <= dim < t.dim():
        raise DimensionError(
            f"Invalid index {dim} for tensor of size {tuple(t.shape)}",
            expected=f"a dimension of {t.dim()}",
            got=repr(dim)[:80],
            fix="count from 0",
        )


class BasePruningMethod(ABC):
    """A way of choosing what to take away. Subclasses define `compute_mask`, and `PRUNING_TYPE`: "unstructured" (single
    elements), "structured" (slices of the dimension `dim`) or "global" (elements, earlier ones as well).

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> class Negative(prune.BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t >= 0)
        >>> Negative().prune(weft.tensor([3.0, -4.0]))
        tensor([3., -0.])
    """

    _tensor_name: str = ""
    PRUNING_TYPE: ClassVar[str]

    def __call__(self, module: Module, inputs: tuple[Tensor, ...]) -> None:
        """Before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Ones where elements stay, zeros where they go, by their importance `t`; nothing comes
        back that `default_mask` took away.

        Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            all the same.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter with zeros.

        Args:
            module: the module.
        """
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: object,
        importance_scores: Tensor | None = None,
        **kwargs: object,
    ) -> BasePruningMethod:
        """Prune a parameter, from now on before each forward; the rest of the arguments makes the
        method.

        Args:
            module: the module that has the parameter.
            name: the name of the parameter.
            *args: what the class of the method takes.
            importance_scores: by what elements are judged; None: by their own values.
            **kwargs: the same by name.

        Returns:
            the hook.

        Raises:
            MissingError, AssertedError; the module is then as it was.
        """
        need_parameter(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        number, old = next((p for p in hooks_of(module) if p[1]._tensor_name == name), (None, None))
        value = getattr(module, name)
        if importance_scores is not None:
            _check_scores(importance_scores, value.shape, f"parameter {name} of {module}")
        scores = value if importance_scores is None else importance_scores
        if old is None:
            mask = method.compute_mask(scores, weft.ones_like(value))
        else:
            method = _joined(old, method)
            mask = method.compute_mask(scores, getattr(module, name + "_mask").detach().clone())
            del module._own_hooks().forward_pre[number]  # type: ignore[arg-type]
        if old is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", value)
            module.register_buffer(name + "_mask", mask)
        else:
            setattr(module, name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """A tensor with zeros, by the importance of its elements: their own values, where none is given.

        Args:
            t: the tensor.
            default_mask: the mask so far; None: ones.
            importance_scores: by what elements are judged; None: by their own values.
        """
        if importance_scores is not None:
            _check_scores(importance_scores, t.shape, "tensor t")
        scores = t if importance_scores is None else importance_scores
        before = weft.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Make the parameter plain again, with the zeros that it has.

        Args:
            module: the module.
        """
        name = self._tensor_name
        value = self.apply_mask(module).detach()
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = value
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        setattr(module, name, original)


def _joined(old: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    container = (
        PruningContainer(*old) if isinstance(old, PruningContainer) else PruningContainer(old)
    )
    container._tensor_name = method._tensor_name
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Methods that follow each other on one parameter.

    Args:
        *args: the methods, for the same parameter.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = weft.nn.Linear(4, 1, bias=False)
        >>> _ = prune.l1_unstructured(layer, "weight", 1)
        >>> _ = prune.random_unstructured(layer, "weight", 1)
        >>> (layer.weight == 0).sum()
        tensor(2)
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args and isinstance(args[0], BasePruningMethod):
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Put one behind the others.

        Args:
            method: the method that comes after those there are.

        Raises:
            ArgumentTypeError, and ArgumentError where it is for another name.
        """
        if not isinstance(method, BasePruningMethod):
            raise ArgumentTypeError(
                f"{type(method)} is not a BasePruningMethod subclass",
                expected="a pruning method",
                got=type(method).__name__,
                fix="subclass BasePruningMethod",
            )
        if self._tensor_name != method._tensor_name:
            raise ArgumentError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'",
                expected=repr(self._tensor_name),
                got=repr(method._tensor_name),
                fix="use a container for each parameter",
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, within what the earlier ones left.

        Args:
            t: the importance of each element.
            default_mask: the mask so far.
        """
        method = self._pruning_methods[-1]
        mask = default_mask.clone()
        kept = self._kept(method, default_mask)
        part = method.compute_mask(t[kept], default_mask=default_mask[kept])
        mask[kept] = part.to(mask.dtype)
        return mask

    def _kept(self, method: BasePruningMethod, mask: Tensor) -> Any:
        """The elements or slices that the last method may take away, as an index."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * mask.dim()
        if method.PRUNING_TYPE != "structured":
            raise ArgumentError(
                f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}",
                expected="'unstructured', 'structured' or 'global'",
                got=repr(method.PRUNING_TYPE),
                fix="set PRUNING_TYPE in the class",
            )
        if not hasattr(method, "dim"):
            raise MissingError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.',
                expected="an attribute dim",
                got=type(method).__name__,
                fix="set self.dim in __init__",
            )
        check_dim(mask, method.dim)
        dim = method.dim % mask.dim()
        others = [axis for axis in range(mask.dim()) if axis != dim]
        left = mask.sum(dim=others) != 0
        return (slice(None),) * dim + (left,)
