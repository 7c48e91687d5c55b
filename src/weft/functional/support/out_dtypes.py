"""Dtype rules of `out=`, for functions that ask more of it than that it can hold the result, which
`weft.tensor.leaves.give_out` asks of all.

It takes a function and the arguments of a call, and returns the call's result, or NotImplemented if the function
writes `out` itself. A rule is found by the name of a function: the dtypes it accepts, and PyTorch's words when it
refuses one. Functions that compute in the dtype of `out` take it as their `dtype`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, NoReturn

from weft.engine.api.api_function import defined_in
from weft.engine.dispatch.type_names import C_NAMES, TYPE_NAMES
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import DTypeError, DTypeKindError
from weft.functional.support.variants import check_apart, check_out, given, tensors_in


class OutRule(NamedTuple):
    """`accepts` is true if a dtype may be that of `out`, given the result's and the tensors; `words` are PyTorch's if
    not, and `error` the class."""

    accepts: Callable[[Any, Any, list[Tensor]], bool]
    words: str
    error: type[DTypeError] = DTypeError


def _same(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    return out is result


def _holding(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    """A type that can hold the result: of its kind, or of a wider one."""
    return bool(out.category >= result.category)


def _alike(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    return bool(out.category == result.category)


def _truth(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    return out.name in ("bool", "uint8")


def _same_or_of_complex(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    """The absolute values of complex numbers: real ones of any width, or complex ones of the operand's."""
    given = tensors[0]._dtype
    if out.category == given.category:
        return out is given
    return given.category > result.category <= out.category


def _same_or_of_numbers(out: DType, result: DType, tensors: list[Tensor]) -> bool:
    return out is result or (any(not x._shape for x in tensors) and _holding(out, result, tensors))


_UNARY = "Found dtype {out} but expected {result}"
_CONTRACTED = "tensordot: Expected the output tensor to have dtype {result}, but got an output tensor with dtype {out}"
_ALLOCATED = "Expected out tensor to have dtype {c_result}, but got {c_out} instead"
_CASTABLE = (
    "Expected result to be safely castable from {result} dtype, but got result with dtype {out}"
)
_JOINED = "torch.cat(): input types can't be cast to the desired output type {out}"
_SEARCHED = (
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {narrow}"
)

# The functions of a rule: those that want the type of the result, those that take what can hold it, those that take
# its kind.
_EXACT = {
    _ALLOCATED: (
        "addmm addmv baddbmm bmm mv cross softmax avg_pool2d avg_pool3d linear mm slice_scatter gather index_copy "
        "index_add index_reduce scatter scatter_add msort renorm take_along_dim tril triu log_softmax norm "
        "scatter_reduce det eigvalsh ldl_solve vector_norm lu_solve inv inverse solve svdvals argmax "
        "argmin isin matmul matrix_power diag"
    ),
    _UNARY: (
        "bitwise_not ceil conj_physical frac floor softshrink hardshrink gelu neg round sign sgn trunc softplus fix "
        "negative"
    ),
    "result dtype {out} does not match input dtype {result}": "dot vdot",
    "Expected object of scalar type {result} but got scalar type {out} for argument 'out'": "complex polar",
    "Expected self.dtype() == output.dtype() to be true, but got false.": "narrow_copy",
    "quantile() out tensor must be same dtype as the input tensor": "quantile nanquantile",
    "expected scalar type {result} but found {out}": "logsigmoid solve_triangular",
    "expected scalar_type {result} but found {out}": "logcumsumexp diff",
    "linalg.matrix_norm expected out tensor dtype {result} but got: {out}": "matrix_norm",
    "linalg.norm expected out tensor dtype {result} but got: {out}": "linalg_norm",
    "linalg.vecdot: Expected out of dtype{result} but found {out}": "vecdot",
    "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for out's dtype.": (
        "amax amin"
    ),
    "self and mat2 must have the same dtype, but got {out} and {result}": "addbmm",
    "masked_select(): self and result must have the same scalar type": "masked_select",
    "index_select(): self and result must have the same scalar type": "index_select",
    "take(): self and out expected to have the same dtype, but got self.dtype = {result} and out.dtype = {out}": (
        "take take_flat"
    ),
    "heaviside is not yet implemented for tensors with different dtypes.": "heaviside",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{result} and result has dtype "
    "{out}": "ormqr",
    "the output given to float_power has dtype {out} but the operation's result requires dtype {result}": "float_power",
    "nan_to_num: dtype of out: {out} should be same as input: {result}": "nan_to_num",
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {c_result} and hist "
    "{c_out}": "histc",
    _SEARCHED.format(out="{out}", narrow="false"): "searchsorted bucketize",
    _CONTRACTED: "tensordot",
    "Expected out type to be {result} but got {out}": "where",
    "nonzero: Expected out tensor to have scalar type {result} but got scalar type{out}": "nonzero",
    "multi_dot(): expected out tensor to have dtype {c_result} but got {c_out}": "multi_dot",
    "signbit does not support non-boolean outputs.": "signbit",
    "isposinf does not support non-boolean outputs.": "isposinf",
    "isneginf does not support non-boolean outputs.": "isneginf",
}
_HOLDS = {
    _JOINED: "cat concat concatenate column_stack row_stack stack hstack vstack dstack",
    f"cholesky: {_CASTABLE}": "cholesky",
    f"cholesky_inverse: {_CASTABLE}": "cholesky_inverse",
    f"cholesky_solve: {_CASTABLE}": "cholesky_solve",
    f"linalg.pinv: {_CASTABLE}": "pinv",
    f"linalg.cond: {_CASTABLE}": "cond",
    f"tensorinv: {_CASTABLE}": "tensorinv",
    f"tensorsolve: {_CASTABLE}": "tensorsolve",
    f"torch.linalg.matrix_rank: {_CASTABLE}": "matrix_rank",
    f"torch.linalg.householder_product: {_CASTABLE}": "householder_product orgqr",
    "torch.linalg.eigvals: Expected eigenvalues to be safely castable from {result} dtype, but got eigenvalues with "
    "dtype {out}": "eigvals",
}
_OF_THE_KIND = {
    "{name} expects a complex output tensor, but got {out}": "fft ifft rfft ihfft rfftn ihfftn",
    "{name} expects a floating point output tensor, but got {out}": "hfft irfft hfftn irfftn",
    "fftn expects a complex output tensor, but got {out}": "fftn ifftn fft2 ifft2",
    "rfftn expects a complex output tensor, but got {out}": "rfft2",
    "ihfftn expects a complex output tensor, but got {out}": "ihfft2",
    "irfftn expects a floating point output tensor, but got {out}": "irfft2",
    "hfftn expects a floating point output tensor, but got {out}": "hfft2",
}
_OTHERS = (
    (
        _truth,
        {
            f"{name} only supports bool tensor for result, got: {{out}}": name
            for name in ("all", "any")
        },
    ),
    (_same_or_of_complex, {_UNARY: "abs absolute"}),
    (_same_or_of_numbers, {_CONTRACTED: "inner"}),
)
_GIVEN_TYPE = "dtype {result} does not match dtype of out parameter ({out})"
_APART = frozenset(  # functions whose `out` must not overlap an input
    ("aminmax", "cat", "cross", "gather", "index_select", "kthvalue", "masked_select", "take")
    + ("take_flat", "take_along_dim")
)
_FACTORIES = frozenset(
    ("arange", "range", "linspace", "logspace", "rand", "randn", "randint", "randperm", "ones")
    + ("zeros", "full", "empty", "eye", "normal")
)
_OF_DTYPE = frozenset(("sum", "prod", "nansum", "nanmean", "mean", "cumsum", "cumprod"))
_IN_ITS_TYPE = frozenset(["cumsum", "cumprod"])


_COPIES = OutRule(_same, _ALLOCATED)
_COPYING = "weft.functional.shape.view_copies"  # the module of functions that have this rule


def _rules() -> dict[str, OutRule]:
    groups = ((_same, _EXACT), (_holding, _HOLDS), (_alike, _OF_THE_KIND), *_OTHERS)
    return {
        name: OutRule(accepts, words, DTypeKindError if words is _JOINED else DTypeError)
        for accepts, table in groups
        for words, names in table.items()
        for name in names.split()
    }


_RULES = _rules()


@cache
def _rule_of(function: Callable[..., object]) -> OutRule | None:
    """The rule of a function, by its name; all copies have that of what picks elements."""
    copies = defined_in(function) == _COPYING
    return _RULES.get(function.__name__, _COPIES if copies else None)


def answer_out(function: Callable[..., Tensor], values: Any, keywords: Any) -> Any:
    """The result of a call with `out`; NotImplemented if the function writes it itself.

    Errors: RuntimeError if `out` overlaps an operand or has a dtype that PyTorch refuses."""
    check_out(function, values, keywords)
    out, name = keywords["out"], function.__name__
    rule = _asked_rule(name, out, keywords) or _rule_of(function)
    if rule is None and name not in _APART:
        return NotImplemented
    others = {key: value for key, value in keywords.items() if key != "out"}
    result = function(*values, **others)
    tensors = list(tensors_in([*values, *others.values()]))
    if name in _APART:
        check_apart(out, tuple(tensors), result)
    if rule is not None and isinstance(out, Tensor) and isinstance(result, Tensor):
        _check_type(name, rule, out, result, tensors)
        result = cast(result, out._dtype)
    return given(out, result)


def _asked_rule(name: str, out: Tensor | None, keywords: dict[str, object]) -> OutRule | None:
    """The rule of a function that takes `dtype=`: what is computed in the type of `out` is, if none is asked for."""
    if not isinstance(out, Tensor):
        return None
    asked = keywords.get("dtype")
    if name in _FACTORIES and asked is not None and asked is not out._dtype:
        _refuse(name, _GIVEN_TYPE, out, asked)
    if asked is None and name in _IN_ITS_TYPE:
        asked = keywords["dtype"] = out._dtype
    return _COPIES if name in _OF_DTYPE and asked is not None else None


def _check_type(
    name: str, rule: OutRule, out: Tensor, result: Tensor, tensors: list[Tensor]
) -> None:
    """Errors: RuntimeError where a rule does not take the type of `out`."""
    if out._dtype is not result._dtype and not rule.accepts(out._dtype, result._dtype, tensors):
        _refuse(name, rule.words, out, result._dtype, rule.error)


def _refuse(
    name: str, words: str, out: Tensor, wanted: Any, error: type[DTypeError] = DTypeError
) -> NoReturn:
    got = out._dtype.name
    raise error(
        words.format(
            name=name,
            out=TYPE_NAMES[got],
            result=TYPE_NAMES[wanted.name],
            c_out=C_NAMES.get(got, got),
            c_result=C_NAMES.get(wanted.name, wanted.name),
        ),
        expected=f"an out of dtype {wanted.name}",
        got=got,
        fix=f"pass weft.empty(0, dtype=weft.{wanted.name})",
    )
