"""Operand types: the element types that functions take, for those that are compositions here.

An operation of the op table refuses types by its own row. A function composed of several would take whatever each of
them takes, where PyTorch has one kernel with rules of its own: `RULES` has these, by the name of the function. Each is
a list of checks, which are made in PyTorch's order and fail with PyTorch's words. `check` is called by the wrapper of
public functions for operands that are not all of one floating-point type: these every rule here takes.

`NUMBERS` has the parameters that a function reads as numbers, always or at some value (a factor of 1 is left out), so
that a gradient could not reach them: a tensor that requires grad is refused there, as in PyTorch. Numbers that a
function computes with as tensors, and differentiates at every value (`negative_slope`), are not among them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from weft.engine.dispatch.type_names import C_NAMES, TYPE_NAMES, no_kernel_for
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import (
    ArgumentTypeError,
    DTypeError,
    TensorIndexError,
    UnsupportedDTypeError,
    WeftError,
)

Types = frozenset[str]
Check = Callable[
    [dict[str, Tensor]], None
]  # it is given the tensors of the call by the names of their parameters

BOOL: Types = frozenset(["bool"])
BYTE: Types = frozenset(["uint8"])
INTEGERS: Types = (
    frozenset(["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]) | BYTE
)
FLOATS: Types = frozenset(["float16", "bfloat16", "float32", "float64"])
HALVES: Types = frozenset(["float16", "bfloat16"])
COMPLEX: Types = frozenset(["complex64", "complex128"])
ALL: Types = BOOL | INTEGERS | FLOATS | COMPLEX


class TypeRule(NamedTuple):
    """The types that a function takes for some of its parameters."""

    operands: tuple[str, ...]
    checks: tuple[Check, ...]
    of_one_type: bool = True  # whether operands that are all of one floating-point type pass


def check(
    rule: TypeRule,
    places: Mapping[str, int],
    values: Sequence[object],
    keywords: Mapping[str, object],
) -> None:
    """Errors: DTypeError where a function, whose operands stand at these places, does not take their types."""
    tensors = {}
    for name in rule.operands:
        place = places.get(name, len(values))
        value = values[place] if place < len(values) else keywords.get(name)
        if isinstance(value, Tensor):
            tensors[name] = value
    if tensors:
        for part in rule.checks:
            part(tensors)


def need_constant(name: str, number: Tensor) -> None:
    """Errors: ArgumentTypeError where a number is a tensor that requires grad; `argument_errors` adds the position."""
    if number.requires_grad:
        raise ArgumentTypeError(
            f"argument '{name}' must be Number, not Tensor",
            expected="a number, or a tensor that does not require grad",
            got=f"{name} {number._dtype.name}{list(number._shape)} that requires grad, which would get none",
            fix=f"pass {name}.item() where it is a constant",
        )


def positions(function: Callable[..., object], wanted: Iterable[str]) -> dict[str, int]:
    """The places of these parameters among the positional ones of a function, by name."""
    parameters = inspect.signature(function).parameters.values()
    names = [x.name for x in parameters if x.kind is not inspect.Parameter.KEYWORD_ONLY]
    return {name: names.index(name) for name in wanted if name in names}


def _shown(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{name} {x._dtype.name}{list(x._shape)}" for name, x in tensors.items())


def _promoted(tensors: Mapping[str, Tensor]) -> DType:
    """The type that operands are computed in together."""
    return dtypes.result_dtype([(x._dtype, 2 if x._shape else 1) for x in tensors.values()])


def _listed(types: Types) -> str:
    return ", ".join(name for name in TYPE_NAMES if name in types)


# -- checks ------------------------------------------------------------------------------------------------------------


def _kernel(name: str, takes: Types, *of: str) -> Check:
    """The type that the operands (or those of the names `of`) promote to has a kernel."""

    def look(tensors: dict[str, Tensor]) -> None:
        seen = {key: x for key, x in tensors.items() if key in of} if of else tensors
        dtype = _promoted(seen) if seen else None
        if dtype is not None and dtype.name not in takes:
            raise UnsupportedDTypeError(
                no_kernel_for(name, dtype.name),
                expected=_listed(takes),
                got=_shown(tensors),
                fix="convert with .float()",
            )

    return look


def _types(
    words: str,
    takes: Types,
    *of: str,
    names: Mapping[str, str] = TYPE_NAMES,
    error: type[WeftError] = DTypeError,
) -> Check:
    """Each operand is of some types; the words may show the first one's type {0}, and the one's that is not {1}."""

    def look(tensors: dict[str, Tensor]) -> None:
        first = next(iter(tensors.values()))
        for key, x in tensors.items():
            if (not of or key in of) and x._dtype.name not in takes:
                raise error(
                    words.format(names[first._dtype.name], names[x._dtype.name]),
                    expected=_listed(takes),
                    got=_shown(tensors),
                    fix=f"convert {key} first",
                )

    return look


def _in_today_order(look: Check) -> Check:
    """A check of a table of embeddings; not where a program gives (table, indices), as long ago."""

    def look_at_table(tensors: dict[str, Tensor]) -> None:
        others = dict(tensors)
        indices, table = others.pop("input", None), others.get("weight")
        swapped = indices is not None and indices._dtype.name in FLOATS
        if not (swapped and table is not None and table._dtype.name == "int64"):
            look(others)

    return look_at_table


def _same(
    words: str = "expected scalar type {0} but found {1}",
    names: Mapping[str, str] = TYPE_NAMES,
    of: str = "",
    besides: Types = frozenset(),
) -> Check:
    """All operands (or the one named by `of`) are of the first one's type, or of one of those `besides`; {0} is its
    name, {1} that of the other, {2} the other's parameter."""

    def look(tensors: dict[str, Tensor]) -> None:
        first, *others = tensors.items()
        for key, x in others:
            other = x._dtype is not first[1]._dtype and x._dtype.name not in besides
            if other and of in ("", key):
                raise DTypeError(
                    words.format(names[first[1]._dtype.name], names[x._dtype.name], key),
                    expected=f"{key} of {first[1]._dtype.name}, as {first[0]}",
                    got=_shown(tensors),
                    fix=f"convert with {key}.to({first[0]}.dtype)",
                )

    return look


def _sum_and_product(added: str, left: str, right: str) -> Check:
    """The term that is added and the left operand have the type of the right one; products alone look themselves."""

    def look(tensors: dict[str, Tensor]) -> None:
        if added not in tensors:
            return
        wanted = tensors[right]._dtype
        for words, name in (("self and mat2", added), ("mat1 and mat2", left)):
            if tensors[name]._dtype is not wanted:
                types = TYPE_NAMES[tensors[name]._dtype.name], TYPE_NAMES[wanted.name]
                raise DTypeError(
                    f"{words} must have the same dtype, but got {types[0]} and {types[1]}",
                    expected="one dtype",
                    got=_shown(tensors),
                    fix=f"convert with {name}.to({right}.dtype)",
                )

    return look


def _all_of_one(words: str, *of: str, names: Mapping[str, str] = TYPE_NAMES) -> Check:
    """All operands (or those of the names `of`) have one type; the words may show that of each operand, {0} to the
    last, or {all} beside their names."""

    def look(tensors: dict[str, Tensor]) -> None:
        types = {key: names[x._dtype.name] for key, x in tensors.items()}
        if len({types[key] for key in of or types if key in types}) > 1:
            every = ", ".join(f"{key}: {shown}" for key, shown in types.items())
            raise DTypeError(
                words.format(*types.values(), all=every),
                expected="one dtype",
                got=_shown(tensors),
                fix="convert with .to(input.dtype)",
            )

    return look


def _written_to(operand: str, floats: bool = False, names: Mapping[str, str] = TYPE_NAMES) -> Check:
    """The result, a floating-point number where `floats`, is written in the type of an operand."""

    def look(tensors: dict[str, Tensor]) -> None:
        target = tensors.get(operand)
        if target is None:
            return
        result = _promoted(tensors)
        if floats and result.category < 2:
            result = dtypes.get_default()
        if result.category > max(target._dtype.category, 1) or (
            result.category and not target._dtype.category
        ):
            raise DTypeError(
                f"result type {TYPE_NAMES[result.name]} can't be cast to the desired output type "
                f"{names[target._dtype.name]}",
                expected=f"{operand} of a type that holds {result.name}",
                got=_shown(tensors),
                fix=f"convert {operand} with .to(weft.{result.name})",
            )

    return look


def _with_parameters(*parameters: str) -> Check:
    """Weights, biases and statistics are of the input's type, or all of float32 beside halves."""

    def look(tensors: dict[str, Tensor]) -> None:
        input = tensors["input"]
        given = [tensors[name] for name in parameters if name in tensors]
        if not given or 0 in input._shape or all(x._dtype is input._dtype for x in given):
            return
        other = next(x for x in given if x._dtype is not input._dtype)
        if given[0]._dtype is input._dtype:
            wanted, found = TYPE_NAMES[input._dtype.name], TYPE_NAMES[other._dtype.name]
            words = f"expected scalar type {wanted} but found {found}"
        elif any(x._dtype is not dtypes.float32 for x in given):
            words = "mixed dtype (CPU): expect parameter to have scalar type of Float"
        elif input._dtype.name in HALVES:
            return
        else:
            words = "mixed dtype (CPU): all inputs must share same datatype."
        raise DTypeError(
            words,
            expected=f"parameters of {input._dtype.name}, or of float32 beside halves",
            got=_shown(tensors),
            fix="convert the input, or the layer with .to(input.dtype)",
        )

    return look


# -- the rules ---------------------------------------------------------------------------------------------------------


def _rule(operands: str, *checks: Check, of_one_type: bool = True) -> TypeRule:
    return TypeRule(tuple(operands.split()), checks, of_one_type)


def _normalization(kernel: str, parameters: str) -> TypeRule:
    """Of a layer that normalises: PyTorch looks at its weights first."""
    names = parameters.split()
    return _rule(f"input {parameters}", _with_parameters(*names), _kernel(kernel, FLOATS, "input"))


def _one(kernel: str, takes: Types, operand: str = "input") -> TypeRule:
    return _rule(operand, _kernel(kernel, takes))


def _words(words: str, takes: Types, operands: str = "input") -> TypeRule:
    return _rule(operands, _types(words, takes))


def _indexed(words: str, takes: Types, operands: str = "index", *more: Check) -> TypeRule:
    """Of a function that looks up: indices of floating-point numbers are none."""
    return _rule(operands, _types(words, takes, "index", "indices"), *more, of_one_type=False)


_LONG = frozenset(["int64"])
_INT_OR_LONG = frozenset(["int32", "int64"])
_NUMBERS = ALL - BOOL
_REAL_NUMBERS = INTEGERS | FLOATS
_WITH_LONG = FLOATS | _LONG  # what kernels for floats take besides
_INEXACT = FLOATS | COMPLEX

_HISTOGRAM_EDGES = (
    "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input "
    "with dtype {0} and bins for dimension 0 with dtype {1}"
)
_HISTOGRAM_WEIGHT = (
    "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have "
    "the same dtype, but got input({0}), and weight({1})"
)
_ATTENTION_MASK = (
    "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
    "attn_mask.dtype: {1} and  query.dtype: {0} instead."
)
_BAG_WEIGHT = (
    "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
    "BFloat16, Float, Double; but got {1} instead (while checking arguments for embedding_bag)"
)
_BAG_INDICES = (
    "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
    "Int; but got {1} instead (while checking arguments for embedding_bag)"
)
_BAG_SHARES = (
    "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
    "'per_sample_weights'; but type {0} does not equal {1} (while checking arguments for embedding_bag)"
)
_VECDOT = "linalg.vecdot: Expected a floating point or complex tensor as input. Got {1}"
_VECDOT_PAIR = (
    "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {0} and y of "
    "type {1} instead"
)
_POLAR = "Expected both inputs to be Half, Float or Double tensors but got {0} and {1}"
_POLAR_PAIR = "Expected object of scalar type {0} but got scalar type {1} for second argument"
_PUT = (
    "put_(): self and source expected to have the same dtype, but got self.dtype = {0} and "
    "source.dtype = {1}"
)
_INDEX_PUT = (
    "Index put requires the source and destination dtypes match, got {0} for the destination and "
    "{1} for the source."
)
_NO_DIFFERENCE = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
    "`logical_xor()` operator instead."
)
_UNPOOL = "elements in indices should be type int64 but got: {1}"
_TRAPEZOID = "trapezoid: received a bool input for `x` or `y`, but bool is not supported"
_BATCHES = "Input dtypes must be the same, got: input {0}, batch1: {1}, batch2: {2}"

RULES: dict[str, TypeRule] = {
    # losses
    "binary_cross_entropy": _rule(
        "input target",
        _same("Found dtype {1} but expected {0}"),
        _kernel("binary_cross_entropy", FLOATS),
    ),
    "binary_cross_entropy_with_logits": _rule("target input weight", _written_to("target")),
    "ctc_loss": _one("ctc_loss_cpu", FLOATS, "log_probs"),
    "gaussian_nll_loss": _rule("var", _written_to("var", floats=True, names=C_NAMES)),
    "huber_loss": _rule("input target", _kernel("huber_cpu", FLOATS), _written_to("input")),
    "kl_div": _rule(
        "input target",
        _types("kl_div: Integral inputs not supported.", ALL - INTEGERS - BOOL),
        _types("kl_div: Complex inputs not supported.", FLOATS, "input"),
    ),
    "mse_loss": _rule("input target", _kernel("mse_cpu", _REAL_NUMBERS)),
    "multi_margin_loss": _rule(
        "input weight target",
        _kernel("multi_margin_loss_cpu_kernel", FLOATS, "input"),
        _same(of="weight"),
        of_one_type=False,
    ),
    "multilabel_margin_loss": _rule(
        "input target",
        _kernel("multilabel_margin_loss_forward_out_frame", FLOATS, "input"),
        of_one_type=False,
    ),
    "nll_loss": _one("nll_loss_out_frame", FLOATS),
    "smooth_l1_loss": _rule("input target", _kernel("smooth_l1_cpu", FLOATS)),
    "soft_margin_loss": _rule("input target", _written_to("input", floats=True)),
    # layers
    "batch_norm": _normalization("batch_norm", "weight bias running_mean running_var"),
    "embedding_bag": _rule(
        "input weight per_sample_weights",
        _in_today_order(_types(_BAG_WEIGHT, FLOATS, "weight")),
        _in_today_order(_same(_BAG_SHARES)),
    ),
    "glu": _one("glu_cpu", FLOATS),
    "grid_sample": _rule(
        "input grid", _kernel("grid_sampler_2d_cpu_kernel_impl", FLOATS, "input"), _same()
    ),
    "grid_sampler_2d": _rule(
        "input grid", _kernel("grid_sampler_2d_cpu_kernel_impl", FLOATS, "input"), _same()
    ),
    "grid_sampler_3d": _rule("input grid", _kernel("grid_sampler3d_cpu", FLOATS, "input"), _same()),
    "group_norm": _normalization("GroupNormKernelImpl", "weight bias"),
    "hardtanh": _words("Bool inputs not supported for hardtanh", ALL - BOOL),
    "instance_norm": _normalization("batch_norm", "weight bias"),
    "layer_norm": _normalization("LayerNormKernelImpl", "weight bias"),
    "linear": _rule("bias input weight", _sum_and_product("bias", "input", "weight")),
    "prelu": _rule(
        "input weight",
        _same("prelu: Type promoting not supported. Got {0} and {1}"),
        _kernel("prelu_cpu", FLOATS),
    ),
    "relu6": _words("Bool inputs not supported for hardtanh", ALL - BOOL),
    "rms_norm": _one("rms_norm", _INEXACT),
    "scaled_dot_product_attention": _rule(
        "query attn_mask", _same(_ATTENTION_MASK, C_NAMES, besides=BOOL | {"float32"})
    ),
    "threshold": _one("threshold_cpu", _REAL_NUMBERS),
    # pooling, convolution
    **{
        f"adaptive_avg_pool{n}d": _one(f"adaptive_avg_pool{max(n, 2)}d{'_cpu' * (n > 2)}", FLOATS)
        for n in (1, 2, 3)
    },
    **{
        f"adaptive_max_pool{n}d": _one(f"adaptive_max_pool{max(n, 2)}d{'_cpu' * (n > 2)}", FLOATS)
        for n in (1, 2, 3)
    },
    "avg_pool1d": _one("avg_pool2d", _WITH_LONG),
    "avg_pool2d": _one("avg_pool2d", _WITH_LONG),
    "avg_pool3d": _one("avg_pool3d_out_frame", _WITH_LONG),
    **{
        f"conv_transpose{n}d": _one(
            f"slow_conv_transpose{max(n, 2)}d_out_cpu", _WITH_LONG | COMPLEX | BOOL
        )
        for n in (1, 2, 3)
    },
    "local_response_norm": _one("avg_pool2d", _WITH_LONG),
    **{
        f"max_unpool{n}d": _indexed(
            _UNPOOL, _LONG, "input indices", _kernel(f"max_unpool{max(n, 2)}d", FLOATS, "input")
        )
        for n in (1, 2, 3)
    },
    "segment_reduce": _one("_segment_reduce_cpu", FLOATS, "data"),
    # products
    "addbmm": _rule("input batch1 batch2", _sum_and_product("input", "batch1", "batch2")),
    "addmm": _rule("input mat1 mat2", _sum_and_product("input", "mat1", "mat2")),
    "addmv": _rule(
        "input mat vec",
        _all_of_one("addmv input tensors must have the same dtype, but got {0}, {1}, and {2}"),
    ),
    "baddbmm": _rule(
        "input batch1 batch2",
        _all_of_one(_BATCHES, "input", "batch1", names=C_NAMES),
        _same(of="batch2"),
    ),
    "bilinear": _rule(
        "input1 input2 weight bias",
        _all_of_one("All tensors must have the same dtype, got {all}", names=C_NAMES),
    ),
    "cdist": _rule(
        "x1 x2",
        _types("cdist only supports floating-point dtypes, X1 got: {1}", FLOATS, "x1"),
        _types("cdist only supports floating-point dtypes, X2 got: {1}", FLOATS, "x2"),
        _same(),
    ),
    "cross": _rule("input other", _kernel("cross", _NUMBERS, "input"), _same()),
    "svd_lowrank": _rule(
        "A M",
        _same("expected m1 and m2 to have the same dtype, but got: {1} != {0}", names=C_NAMES),
    ),
    "vecdot": _rule("x y", _types(_VECDOT, _INEXACT, names=TYPE_NAMES), _same(_VECDOT_PAIR)),
    # writes and look-ups
    "index_copy": _indexed("index_copy_(): Expected a long tensor for index, but got {1}", _LONG),
    "index_fill": _rule(
        "index",
        _types("index_fill_(): Expected dtype int64 for index.", _LONG, error=TensorIndexError),
        of_one_type=False,
    ),
    "index_put": _rule("input values", _same(_INDEX_PUT)),
    "index_reduce": _indexed(
        "index_reduce_(): Expected dtype int32/int64 for index but got: {1}",
        _INT_OR_LONG,
        "input index",
        _kernel("index_func_", _REAL_NUMBERS, "input"),
    ),
    "masked_scatter": _rule(
        "input source",
        _same("masked_scatter: expected self and source to have same dtypes but got{0} and {1}"),
    ),
    "put": _indexed(
        "put_(): Expected a long tensor for index, but got {1}",
        _LONG,
        "input source index",
        _same(_PUT, of="source"),
    ),
    "take_flat": _indexed("take(): Expected a long tensor for index, but got {1}", _LONG),
    # sorting, counting
    "bincount": _one("bincount_cpu", INTEGERS),
    "bucketize": _rule("input boundaries", _kernel("searchsorted_out_cpu", _REAL_NUMBERS)),
    "histc": _one("histogram_cpu", FLOATS),
    "histogram": _rule(
        "input bins weight",
        _same(_HISTOGRAM_EDGES, C_NAMES, "bins"),
        _same(_HISTOGRAM_WEIGHT, C_NAMES, "weight"),
        _kernel("histogramdd", FLOATS),
    ),
    "histogramdd": _rule("input", _kernel("histogramdd", FLOATS)),
    "isin": _words(
        "Unsupported input type encountered for isin(): {1}",
        _REAL_NUMBERS,
        "elements test_elements",
    ),
    "searchsorted": _rule("sorted_sequence input", _kernel("searchsorted_out_cpu", _REAL_NUMBERS)),
    "unique": _one("unique", ALL - COMPLEX),
    "unique_consecutive": _one("unique", ALL - COMPLEX),
    # others
    "cumulative_trapezoid": _words(f"cumulative_{_TRAPEZOID}", _NUMBERS, "x y"),
    "gradient": _rule(
        "input",
        _types("torch.gradient does not support uint8 input.", ALL - BYTE),
        _types(_NO_DIFFERENCE, _NUMBERS),
    ),
    "igamma": _rule("input other", _kernel("igamma_cpu", FLOATS)),
    "igammac": _rule("input other", _kernel("igammac_cpu", FLOATS)),
    "lerp": _rule(
        "input end weight", _same("expected dtype {0} for `{2}` but got dtype {1}", C_NAMES)
    ),
    "mvlgamma": _words("The input tensor may not be a boolean tensor.", ALL - BOOL),
    "polar": _rule("abs angle", _types(_POLAR, FLOATS), _same(_POLAR_PAIR)),
    "trapezoid": _words(_TRAPEZOID, _NUMBERS, "x y"),
    **{name: _one(f"{name}_cpu", ALL - COMPLEX) for name in ("erfcx", "log_ndtr")},
    "airy_ai": _one("airy_ai_cpu", ALL - COMPLEX, "x"),
    **{
        name: _rule("input n", _kernel(f"{name}_cpu", ALL - COMPLEX))
        for name in (
            *(f"{s}chebyshev_polynomial_{kind}" for s in ("", "shifted_") for kind in "tuvw"),
            *("hermite_polynomial_h", "hermite_polynomial_he"),
            *("laguerre_polynomial_l", "legendre_polynomial_p"),
        )
    },
}

_BOUNDS = "start end step"

_CONSTANTS: dict[str, str] = {
    # tensors of numbers
    **dict.fromkeys(("full", "full_like", "new_full"), "fill_value"),
    **dict.fromkeys(("arange", "range"), _BOUNDS),
    "scalar_tensor": "s",
    # factors; those of add, sub and rsub, which are called most, are looked at where they are other than 1
    "index_add": "alpha",
    **dict.fromkeys(("addcdiv", "addcmul"), "value"),
    **dict.fromkeys(("addbmm", "addmm", "addmv", "addr", "baddbmm"), "beta alpha"),
    # norms and distances
    **dict.fromkeys(("cdist", "dist", "normalize", "pairwise_distance", "pdist", "renorm"), "p"),
    **dict.fromkeys(("linalg_norm", "matrix_norm", "vector_norm"), "ord"),
    "norm": "p",
    # layers and losses
    **dict.fromkeys(("group_norm", "layer_norm"), "eps"),
    "batch_norm": "momentum",
    "instance_norm": "eps momentum",
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), "norm_type"),
    **dict.fromkeys(("multi_margin_loss", "triplet_margin_loss"), "p"),
    "hardshrink": "lambd",
    "smooth_l1_loss": "beta",
    "softplus": "beta",
    "pad": "value",
    "scaled_dot_product_attention": "scale",
    "threshold": "threshold value",
    # statistics
    **dict.fromkeys(("std", "std_mean", "var", "var_mean"), "correction"),
    "gradient": "spacing",
    "histc": "min max",
}

NUMBERS = {name: frozenset(numbers.split()) for name, numbers in _CONSTANTS.items()}
