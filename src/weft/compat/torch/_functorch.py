"""`weft._functorch`: names that the package functorch imports, and steps of PyTorch's `vmap` that packages import.

Models become functions of their parameters; the transforms are those of `weft.func`. A function under `weft.vmap` sees
the tensors of one example, so no step adds a dimension to a tensor or removes it: such steps are refused. A tensor
without the dimension is returned as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NoReturn

from weft._C import no_levels

from weft import func
from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError
from weft.func import functional_call, stack_module_state
from weft.nn import Module
from weft.utils._pytree import tree_flatten, tree_unflatten


def _get_name(func: Callable[..., object]) -> str:
    """The name of a function in errors."""
    return getattr(func, "__name__", repr(func))


class FunctionalModule:
    """A model as a function of its parameters and inputs."""

    def __init__(self, model: Module) -> None:
        self.stateless_model = deepcopy(model).to("meta")
        self.param_names = [name for name, _ in model.named_parameters()]

    def __call__(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A model as a function of its parameters, its buffers and inputs."""

    def __init__(self, model: Module) -> None:
        super().__init__(model)
        self.buffer_names = [name for name, _ in model.named_buffers()]

    def __call__(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        names, values = [*self.param_names, *self.buffer_names], [*params, *buffers]
        state = dict(zip(names, values, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def _parameters(model: Module, disable_autograd_tracking: bool) -> tuple[Tensor, ...]:
    copies = deepcopy(model).parameters()
    return tuple(p.detach() if disable_autograd_tracking else p for p in copies)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(a function of parameters and inputs, the parameters); `weft.func.functional_call` does without both."""
    return FunctionalModule(model), _parameters(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(a function of parameters, buffers and inputs, the parameters, the buffers)."""
    buffers = tuple(buffer.clone() for buffer in model.buffers())
    params = _parameters(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model), params, buffers


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """`make_functional_with_buffers` of models of one kind, their parameters and buffers stacked."""
    params, buffers = stack_module_state(list(models))
    called = FunctionalModuleWithBuffers(models[0])
    return called, tuple(params.values()), tuple(buffers.values())


def make_fx(*arguments: object, **options: object) -> NoReturn:
    """Errors: NotImplementedError."""
    raise NotDefinedError(
        "make_fx: no symbolic traces are made",
        expected="a function that is called",
        got="make_fx",
        fix="call it: each call records its graph, which weft.debug.graph_text(result) shows",
    )


_STEPS = (
    "_add_batch_dim", "_broadcast_to_and_flatten", "_create_batched_inputs", "_maybe_remove_batch_dim",
    "_process_batched_inputs", "_remove_batch_dim", "_unwrap_batched", "_validate_and_get_batch_size",
)  # fmt: skip
_OTHERS = {
    "Tensor": Tensor, "_get_name": _get_name, "tree_flatten": tree_flatten, "tree_unflatten": tree_unflatten,
}  # fmt: skip
_TRANSFORMS = (
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "vjp",
    "vmap",
)
_MODELS = (
    FunctionalModule, FunctionalModuleWithBuffers, combine_state_for_ensemble, make_functional,
    make_functional_with_buffers,
)  # fmt: skip
_models = {model.__name__: model for model in _MODELS}
EXPORTED = {**_models, **{name: getattr(func, name) for name in _TRANSFORMS}, "make_fx": make_fx}
_join(
    sys.modules[__name__],
    {
        "vmap": {**dict.fromkeys(_STEPS, no_levels), **_OTHERS},
        "make_functional": _models,
        "deprecated": {**_models, **{name: getattr(func, name) for name in _TRANSFORMS}},
        "python_key": {"make_fx": make_fx},
    },
)
