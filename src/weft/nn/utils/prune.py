"""Pruning: parameters of which some elements are held at zero by a mask.

A method takes a module, the name of a parameter and an amount, which is a number of elements or a share; the parameter
then has zeros in each forward. Several methods on one parameter each act on the elements that the earlier ones left.
"""

from __future__ import annotations

from collections.abc import Iterable

import weft
from weft import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, AssertedError
from weft.nn.module.module import Module
from weft.nn.utils import pruning, weight_hooks
from weft.nn.utils.clip_gradients import parameters_to_vector
from weft.nn.utils.pruning import BasePruningMethod, PruningContainer


def _check_amount(amount: float | str) -> None:
    """A number of elements, or a share. Errors: ArgumentTypeError, ArgumentError."""
    if not isinstance(amount, int | float):
        raise ArgumentTypeError(
            f"Invalid type for amount: {amount}. Must be int or float.",
            expected="a number of elements, or a share between 0 and 1",
            got=type(amount).__name__,
            fix="pass such as 0.3",
        )
    if not (amount >= 0 if isinstance(amount, int) else 0 <= amount <= 1):
        raise ArgumentError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer",
            expected="a number of elements, or a share between 0 and 1",
            got=repr(amount),
            fix="pass such as 0.3",
        )


_validate_pruning_amount_init = (
    _check_amount  # PyTorch's names, which its tests and older programs call
)


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    """Errors: ArgumentError for more elements than there are."""
    _count(amount, tensor_size)


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    """The number of elements to prune."""
    return _count(amount, tensor_size)


def _count(amount: int | float, size: int) -> int:
    """The number of the `size` elements to prune. Errors: ArgumentError."""
    if isinstance(amount, int) and amount > size:
        raise ArgumentError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}",
            expected=f"at most {size}",
            got=str(amount),
            fix="pass a share",
        )
    return amount if isinstance(amount, int) else round(amount * size)


def _check_structured(t: Tensor, dim: int) -> None:
    """Errors: ArgumentError, DimensionError."""
    if t.dim() <= 1:
        raise ArgumentError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {tuple(t.shape)} with {t.dim()} dims",
            expected="at least 2 dimensions",
            got=str(list(t.shape)),
            fix="prune single elements",
        )
    pruning.check_dim(t, dim)


def _without(mask: Tensor, places: Tensor) -> Tensor:
    """A mask from which elements, counted through all dimensions, are gone."""
    flat = mask.clone().reshape(-1)
    flat[places] = 0
    return flat.reshape(mask.shape)


def _only(mask: Tensor, dim: int, places: Tensor) -> Tensor:
    """A mask of which only these slices of a dimension are left."""
    left = weft.zeros(mask.shape[dim], dtype=mask.dtype)
    left[places] = 1
    shape = [1] * mask.dim()
    shape[dim] = -1
    return mask * left.reshape(shape)


class Identity(BasePruningMethod):
    """Takes nothing away.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.Identity().prune(weft.tensor([3.0, 4.0]))
        tensor([3., 4.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it was.

        Args:
            t: the importance of each element.
            default_mask: the mask so far.
        """
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Takes elements away at random.

    Args:
        amount: how many elements go, or what share of them.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.RandomUnstructured(1).prune(weft.ones(3)).sum()
        tensor(2.)
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            (*), (*) -> (*).
        """
        count = _count(self.amount, t.numel())
        return _without(default_mask, weft.randperm(t.numel())[:count])


class L1Unstructured(BasePruningMethod):
    """Takes the smallest elements away.

    Args:
        amount: how many elements go, or what share of them.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.L1Unstructured(1).prune(weft.tensor([3.0, -1.0, 2.0]))
        tensor([3., -0., 2.])
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            (*), (*) -> (*).
        """
        count = _count(self.amount, t.numel())
        smallest = t.detach().abs().reshape(-1).topk(count, largest=False)[1]
        return _without(default_mask, smallest)


class RandomStructured(BasePruningMethod):
    """Takes slices of a dimension away at random.

    Args:
        amount: how many slices go, or what share of them.
        dim: the dimension whose slices are drawn. Default: -1.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.RandomStructured(1, dim=0).prune(weft.ones(3, 2)).sum()
        tensor(4.)
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            (*), (*) -> (*).
        """
        _check_structured(t, self.dim)
        size = t.shape[self.dim]
        return _only(default_mask, self.dim, weft.randperm(size)[_count(self.amount, size) :])


class LnStructured(BasePruningMethod):
    """Takes the slices of a dimension away whose n-norm is smallest.

    Args:
        amount: how many slices go, or what share of them.
        n: the order of the norm.
        dim: the dimension whose slices are judged. Default: -1.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.LnStructured(1, n=2, dim=0).prune(weft.tensor([[3.0, 1.0], [0.5, 0.5]]))
        tensor([[3., 1.],
                [0., 0.]])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, n: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            (*), (*) -> (*).
        """
        _check_structured(t, self.dim)
        size, dim = t.shape[self.dim], self.dim % t.dim()
        others = [axis for axis in range(t.dim()) if axis != dim]
        norms = weft.norm(t.detach(), p=self.n, dim=others)
        return _only(default_mask, dim, norms.topk(size - _count(self.amount, size))[1])


class CustomFromMask(BasePruningMethod):
    """Takes away what a given mask says.

    Args:
        mask: ones where elements stay, zeros where they go.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> prune.CustomFromMask(weft.tensor([1.0, 0.0])).prune(weft.tensor([3.0, 4.0]))
        tensor([3., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Args:
            t: the importance of each element.
            default_mask: the mask so far.

        Shape:
            (*), (*) -> (*).

        Raises:
            AssertedError.
        """
        if tuple(default_mask.shape) != tuple(self.mask.shape):
            raise AssertedError(
                f"default_mask shape {tuple(default_mask.shape)} must match "
                f"self.mask shape {tuple(self.mask.shape)}",
                expected=str(tuple(default_mask.shape)),
                got=str(tuple(self.mask.shape)),
                fix="give a mask of the shape of the parameter",
            )
        return default_mask * self.mask.to(default_mask.dtype)


# -- functions -------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Prepare a parameter for pruning, with a mask of ones.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.identity(weft.nn.Linear(3, 1), "weight")  # a mask of ones
        >>> layer.weight_mask
        tensor([[1., 1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: int | float) -> Module:
    """Take elements away at random: a number of them, or a share.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.
        amount: how many elements go, or what share of them.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.random_unstructured(weft.nn.Linear(4, 1), "weight", amount=3)
        >>> int((layer.weight == 0).sum())
        3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
) -> Module:
    """Take the smallest elements away, or those of the smallest scores.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.
        amount: how many elements go, or what share of them.
        importance_scores: by what elements are judged; None: by their own values.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = weft.nn.Linear(4, 1)
        >>> _ = prune.l1_unstructured(layer, "weight", amount=0.5)  # the half of least magnitude
        >>> int((layer.weight == 0).sum())
        2
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: int | float, dim: int) -> Module:
    """Take slices of a dimension away at random.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.
        amount: how many slices go, or what share of them.
        dim: the dimension whose slices are judged.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.random_structured(weft.nn.Linear(4, 3), "weight", amount=1, dim=1)  # a column
        >>> int((layer.weight == 0).all(0).sum())
        1
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: int | float,
    n: float,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Take the slices of a dimension away whose n-norm is smallest.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.
        amount: how many slices go, or what share of them.
        n: the order of the norm.
        dim: the dimension whose slices are judged.
        importance_scores: by what slices are judged; None: by their own values.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.ln_structured(weft.nn.Linear(4, 3), "weight", amount=1, n=2, dim=0)  # a whole row
        >>> int((layer.weight == 0).all(1).sum())
        1
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: a class of methods that judge single elements.
        importance_scores: by what elements are judged, for each pair; None: by their own
            values.
        **kwargs: what the class takes, as `amount`.

    Raises:
        ArgumentTypeError where the method is not unstructured.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> a, b = weft.nn.Linear(4, 1), weft.nn.Linear(2, 3)
        >>> prune.global_unstructured(
        ...     [(a, "weight"), (b, "weight")], pruning_method=prune.L1Unstructured, amount=0.5
        ... )
        >>> int((a.weight == 0).sum() + (b.weight == 0).sum())  # of 10 together
        5
    """
    if not isinstance(pruning_method, type) or not issubclass(pruning_method, BasePruningMethod):
        raise ArgumentTypeError(
            f"{pruning_method!r} is not a BasePruningMethod subclass"[:120],
            expected="a class of pruning methods",
            got=type(pruning_method).__name__,
            fix="use L1Unstructured or RandomUnstructured",
        )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise ArgumentTypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}",
            expected="an unstructured method",
            got=method.PRUNING_TYPE,
            fix="use L1Unstructured or RandomUnstructured",
        )
    pairs = list(parameters) if isinstance(parameters, Iterable) else [parameters]
    given = {} if importance_scores is None else importance_scores
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(given, dict):
            raise ArgumentTypeError(
                "global_unstructured(): parameters must be pairs (module, name), importance_scores a dict",
                expected="[(module, name), ...], and a dict of their scores or None",
                got=f"{type(pair).__name__}, {type(given).__name__}",
                fix="for example [(model.fc1, 'weight'), (model.fc2, 'weight')]",
            )
        pruning.need_parameter(*pair)
    values = [getattr(module, name).detach() for module, name in pairs]
    scores = [given.get(pair, value) for pair, value in zip(pairs, values, strict=True)]
    masks = [
        getattr(module, name + "_mask", weft.ones_like(value))
        for (module, name), value in zip(pairs, values, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "all"
    container.add_pruning_method(method)
    mask = container.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    parts = mask.split([value.numel() for value in values])
    for (module, name), part, value in zip(pairs, parts, values, strict=True):
        custom_from_mask(module, name, part.reshape(value.shape))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Take away what a mask says.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.
        mask: ones where elements stay, zeros where they go.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.custom_from_mask(weft.nn.Linear(3, 1), "weight", weft.tensor([[1.0, 0.0, 1.0]]))
        >>> layer.weight == 0
        tensor([[False,  True, False]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make a parameter plain again, with the zeros that it has.

    Args:
        module: the module that has the parameter.
        name: the name of the parameter.

    Raises:
        ArgumentError where it is not pruned.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = prune.l1_unstructured(weft.nn.Linear(4, 1), "weight", amount=2)
        >>> _ = prune.remove(layer, "weight")  # the zeros stay, the mask goes
        >>> [name for name, _ in layer.named_parameters()], int((layer.weight == 0).sum())
        (['bias', 'weight'], 2)
    """
    weight_hooks.need_module(module, name)
    for number, method in pruning.hooks_of(module):
        if method._tensor_name == name:
            method.remove(module)
            del module._own_hooks().forward_pre[number]
            return module
    raise ArgumentError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed",
        expected="the name of a pruned parameter",
        got=repr(name),
        fix="ask is_pruned first",
    )


def is_pruned(module: Module) -> bool:
    """True if a parameter of the module, or of one below, is pruned.

    Args:
        module: the module.

    Example:
        >>> import weft
        >>> from weft.nn.utils import prune
        >>> layer = weft.nn.Linear(3, 1)
        >>> prune.is_pruned(layer), prune.is_pruned(prune.identity(layer, "weight"))
        (False, True)
    """
    weight_hooks.need_module(module, "")
    return any(pruning.hooks_of(part) for part in module.modules())


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
