"""Gradients of the public functions that PyTorch differentiates, against PyTorch's, at the points of its own list of
operations: value, gradients, their derivative, and the tangent of forward mode; in complex128 where PyTorch
differentiates in it, else in float64."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import submodule, torch
from weft.autograd import forward_ad

listed = submodule("torch.testing._internal.common_methods_invocations")

SAMPLES = 2
# One sample is enough of what tests/project/test_conformance.py compares as well.
COMPARED = set((Path(__file__).parents[2] / "samples" / "conformance.txt").read_text().split())
RANDOM = (
    *("normal", "bernoulli", "nn.functional.dropout", "nn.functional.dropout2d"),
    *("svd_lowrank", "pca_lowrank", "nn.functional.rrelu", "nn.functional.fractional_max_pool3d"),
    *("nn.functional.feature_alpha_dropout", "nn.functional.multi_head_attention_forward"),
)
# What PyTorch's list calls with its arguments in another order.
REORDERED: dict[str, Any] = {
    "where": lambda x, condition, *other: weft.where(condition, x, *other),
    "einsum": lambda operands, equation: weft.einsum(equation, operands),
    "nn.functional.embedding": lambda table, index, **options: weft.nn.functional.embedding(
        index, table, **options
    ),
    "nn.functional.embedding_bag": lambda table, index, **options: weft.nn.functional.embedding_bag(
        index, table, **options
    ),
    "fill": lambda x, value: weft.fill(x, value),
    "polygamma": lambda x, order: weft.polygamma(order, x),
    "special.polygamma": lambda x, order: weft.special.polygamma(order, x),
    "zero_": lambda x: x.clone().zero_(),
}
ROUGH = {
    "nn.functional.hardsigmoid": 1e-7,  # PyTorch divides by a float32 6
    "linalg.householder_product": 1e-8,  # second derivatives of 1e5 from elements of 1
}
APART = (
    # PyTorch's second derivative of a norm is nan at 0, Weft's 0.
    "linalg.norm/subgradients_at_zero",
    # Views of views are other samples here than there.
    "as_strided/partial_views",
    # The input is overwritten as a whole, its gradient 0; PyTorch's is not.
    "as_strided_scatter",
    # Indices that repeat: which of their elements stays is open. max_unpool*/grad has none.
    *(f"nn.functional.max_unpool{n}d" for n in (1, 2, 3)),
    # An argument of the samples is a module of PyTorch's.
    "nn.functional.triplet_margin_with_distance_loss",
    # PyTorch refuses the gradient: it writes to out=.
    "nn.functional.linear_cross_entropy/chunked_none",
    # The operation of the list is another function of the same name.
    *("linalg.lstsq/grad_oriented", "linalg.pinv/singular"),
)
# What PyTorch does not derive twice, contrary to its list: refused, of a constant, nan where a mask hides elements, a
# weight that is not there.
ONCE = (
    "native_layer_norm",
    *("nn.functional.ctc_loss", "nn.functional.linear_cross_entropy/chunked"),
    "masked.logaddexp",
)
NO_TANGENT = ("logcumsumexp",)  # PyTorch's is nan for complex numbers
# Wrappers of the list that only say where PyTorch's own helpers are not to look.
PLAIN = (
    "gradcheck_wrapper_masked_operation",
    "gradcheck_wrapper_masked_pointwise_operation",
)


def found(name: str) -> Any:
    """Weft's function of a name in PyTorch's list: of the library, else a method."""
    if name in REORDERED:
        return REORDERED[name]
    for root in (weft, weft.Tensor):
        function: Any = root
        for part in name.split("."):
            function = getattr(function, part, None)
        if callable(function):
            return function
    return None


def differentiated(dtype: str) -> list[Any]:
    """The operations of the list that Weft has and that PyTorch differentiates in a dtype."""
    kind, wider = getattr(torch, dtype), torch.complex128 if dtype == "float64" else None
    chosen = {}
    for info in listed.op_db:
        name = f"{info.name}/{info.variant_test_name}".strip("/")
        types = info.supported_backward_dtypes("cpu")
        given = kind in types and wider not in types and found(info.name) is not None
        if given and info.name not in RANDOM and name not in APART:
            chosen[name] = info
    return [pytest.param(info, dtype, id=f"{name}-{dtype}") for name, info in chosen.items()]


def converted(value: Any) -> Any:
    """A sample's argument in Weft, leaves where PyTorch has leaves."""
    if isinstance(value, torch.Tensor) and value.layout is torch.sparse_csr:
        parts = [value.crow_indices(), value.col_indices(), value.detach().values()]
        made = weft.sparse_csr_tensor(*(weft.from_numpy(p.numpy().copy()) for p in parts))
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, torch.Tensor):
        made = weft.from_numpy(value.detach().resolve_conj().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return getattr(weft, str(value).removeprefix("torch."))
    if isinstance(value, (tuple, list)):
        return type(value)(converted(part) for part in value)
    return value


def leaves(value: Any) -> list[Any]:
    """All tensors that require a gradient, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [value] if getattr(value, "requires_grad", False) else []


def replaced(value: Any, new: Any) -> Any:
    """The same arguments with other tensors in place of those that require a gradient."""
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(part, new) for part in value)
    if isinstance(value, dict):
        return {key: replaced(part, new) for key, part in value.items()}
    return next(new) if getattr(value, "requires_grad", False) else value


def outputs(result: Any) -> list[Any]:
    """The tensors of a result that require a gradient and have elements."""
    made = leaves(list(result) if isinstance(result, (tuple, list)) else [result])
    return [tensor for tensor in made if tensor.numel()]


def wrapped(function: Any, info: Any, process: Any) -> Any:
    """The function as PyTorch derives it: of a Hermitian matrix, say, without the phases of its eigenvectors."""
    wrapper = info.gradcheck_wrapper

    def call(*args: Any, **kwargs: Any) -> Any:
        plain = getattr(wrapper, "__name__", "") in PLAIN
        result = function(*args, **kwargs) if plain else wrapper(function, *args, **kwargs)
        return process(result) if process else result

    return call


def draw(like: Any, seed: int) -> Any:
    source = np.random.default_rng([seed, like.numel()])
    values = source.standard_normal(tuple(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * source.standard_normal(tuple(like.shape))
    return np.asarray(values)


def array(tensor: Any) -> Any:
    tensor = tensor.to_dense() if "sparse" in str(tensor.layout) else tensor
    tensor = tensor.detach() if tensor.dtype.is_complex else tensor.detach().double()
    return tensor.numpy(force=True)


def derivatives(lib: Any, function: Any, args: Any, kwargs: Any, second: bool) -> dict[str, Any]:
    """Value, gradients and second derivatives of one call."""
    made = outputs(function(*args, **kwargs))
    if not made:
        return {"value": []}
    wanted = leaves([args, kwargs])
    seeds = [lib.from_numpy(draw(out, 1)).to(out.dtype).requires_grad_() for out in made]
    options: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    first = lib.autograd.grad(made, wanted, seeds, create_graph=second, **options)
    parts = {"value": made, "gradient": first}
    live = [g for g in first if g.requires_grad]
    if second and live:
        moves = [lib.from_numpy(draw(g, 2)).to(g.dtype) for g in live]
        parts["second"] = lib.autograd.grad(live, [*wanted, *seeds], moves, **options)
    return {name: [array(t) for t in values] for name, values in parts.items()}


def tangents(lib: Any, function: Any, args: Any, kwargs: Any) -> list[Any]:
    """What forward mode gives, zeros where there is none."""
    modes = forward_ad if lib is weft else torch.autograd.forward_ad
    wanted = leaves([args, kwargs])
    with modes.dual_level():
        duals = iter([modes.make_dual(x, lib.from_numpy(draw(x, 3)).to(x.dtype)) for x in wanted])
        args, kwargs = replaced((args, kwargs), duals)
        made = outputs(function(*args, **kwargs))
        pairs = [(out, modes.unpack_dual(out).tangent) for out in made]
        return [np.zeros(tuple(o.shape)) if t is None else array(t) for o, t in pairs]


def samples(info: Any, dtype: str) -> list[Any]:
    """The first samples whose arguments need a gradient and are not empty."""
    most = 1 if info.name in COMPARED else SAMPLES
    given = info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=True)
    kept = []
    for sample in itertools.islice(given, 3 * SAMPLES):
        args = (sample.input, *sample.args)
        tensors = leaves([args, sample.kwargs])
        if tensors and all(t.numel() for t in tensors):
            kept.append((args, sample.kwargs, sample.output_process_fn_grad))
    return kept[:most]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("info", "dtype"), [case for d in ("complex128", "float64") for case in differentiated(d)]
)
def test_gradients_against_torch(info: Any, dtype: str) -> None:
    name = f"{info.name}/{info.variant_test_name}".strip("/")
    second = info.supports_gradgrad and name not in ONCE
    for args, kwargs, process in samples(info, dtype):
        op, ours = (wrapped(f, info, process) for f in (info.op, found(info.name)))
        theirs = derivatives(torch, op, args, kwargs, second)
        mine, named = converted(args), {key: converted(part) for key, part in kwargs.items()}
        got = derivatives(weft, ours, mine, named, second)
        if info.supports_forward_ad and name not in NO_TANGENT:
            theirs["tangent"] = tangents(torch, op, args, kwargs)
            got["tangent"] = tangents(weft, ours, mine, named)
        for part, wanted in theirs.items():
            assert len(got[part]) == len(wanted), part
            for one, other in zip(got[part], wanted, strict=True):
                assert one.shape == other.shape, part
                limit = ROUGH.get(info.name, 1e-9)
                np.testing.assert_allclose(one, other, limit, limit, err_msg=f"{part} {kwargs}")
