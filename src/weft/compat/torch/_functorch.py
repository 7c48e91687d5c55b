"""`weft._functorch`: names that the package functorch imports, and steps of PyTorch's `vmap` that packages import.

Models become functions of their parameters; the transforms are those of `weft.func`. A function under `weft.vmap` sees
the tensors of one example, so no step adds a dimension to a tensor or removes it: such steps are refused. A tensor
without the dimension is returned as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

from weft._C import no_levels

from weft import func
from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

if TYPE_CHECKING:
    from weft.fx import GraphModule, Node
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


def make_boxed_func(f: Callable[..., object]) -> Callable[[Sequence[object]], object]:
    """A function of a list of its arguments.

    Args:
        f: the function of the arguments themselves.
    """

    def boxed(arguments: Sequence[object]) -> object:
        return f(*arguments)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(
    compiler: Callable[..., Callable[..., object]],
) -> Callable[..., object]:
    """A compiler whose functions take lists of their arguments.

    Args:
        compiler: what makes a function of a graph and example inputs.
    """

    def boxed(graph: GraphModule, inputs: Sequence[object]) -> object:
        return make_boxed_func(compiler(graph, inputs))

    return boxed


def nop(fx_g: Callable[..., object], _: object = None) -> object:
    """The graph as it is.

    Args:
        fx_g: a graph of `weft.fx`.
    """
    return make_boxed_func(fx_g)


def _is_primal(node: Node) -> bool:
    """True for an operand of a graph of both passes that is no cotangent."""
    return node.op == "placeholder" and "tangents" not in str(node.target)


def _is_tangent(node: Node) -> bool:
    """True for a cotangent among the operands of a graph of both passes."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def _no_joint_graph(*arguments: object, **options: object) -> NoReturn:
    """Errors: NotImplementedError: no graph of both passes is made ahead of a call."""
    raise NotDefinedError(
        "aot_autograd: no graphs are made ahead of a call",
        expected="a function that is called",
        got="PyTorch's compiler",
        fix="call it: what a call records is compiled, the backward pass too",
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
        "partitioners": {
            "_is_primal": _is_primal,
            "_is_tangent": _is_tangent,
            "default_partition": _no_joint_graph,
            "min_cut_rematerialization_partition": _no_joint_graph,
        },
        "aot_autograd": {
            **dict.fromkeys(("aot_export_module", "aot_function", "aot_module"), _no_joint_graph),
            "aot_module_simplified": _no_joint_graph,
        },
    },
)
COMPILE = {
    "make_boxed_compiler": make_boxed_compiler,
    "make_boxed_func": make_boxed_func,
    "nop": nop,
    **dict.fromkeys(
        (
            "aot_function",
            "aot_module",
            "aot_module_simplified",
            "default_partition",
            "memory_efficient_fusion",
            "min_cut_rematerialization_partition",
            "ts_compile",
        ),
        _no_joint_graph,
    ),
}
