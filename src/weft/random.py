# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Random numbers under PyTorch's names: the default generator's state, distributions, and their in-place forms.

Shapes and parameters come in; tensors that are computed when they are read go out. Where the numbers come from is
`weft.functional.random.generator`'s part.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.inplace import in_place, mutate
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    UnsupportedDTypeError,
    class_name,
)
from weft.functional.random.generator import (
    Generator,
    chosen,
    default_generator,
    integers,
    standard_normal,
    unit,
    wide,
)
from weft.functional.shape.views import expand
from weft.functional.support import host
from weft.functional.support.value_bounds import need_within
from weft.functional.support.variants import by_name, check_apart, write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import order, without_memory
from weft.tensor.arguments import (
    TYPE_NAMES,
    Shape,
    as_dtype,
    describe,
    need_integer,
    need_tensor,
    sizes,
)
from weft.tensor.creation.factories import read_size
from weft.tensor.device import on_meta
from weft.tensor.memory.host_memory import need_room
from weft.tensor.meta import moved

if TYPE_CHECKING:
    from weft._typing import Array, DeviceLike, DTypeLike, TensorLike
    from weft.engine.ir.dtype import DType
    from weft.tensor.layout import Layout, MemoryFormat


require(__name__, cython.compiled)

# -- the default generator -----------------------------------------------------------------------------------------


def manual_seed(seed: int) -> Generator:
    """Start the default generator's sequence of a seed."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator at a seed from the operating system, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go on from a state of the default generator."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> None:
    """None, which means the default generator: workers of a loader are processes, each with one of its own."""


@contextlib.contextmanager
def fork_rng(devices: object = None, enabled: bool = True, **ignored: object) -> Iterator[None]:
    """Leave the default generator afterwards as it was before."""
    before = (default_generator._seed, default_generator._offset)
    try:
        yield
    finally:
        if enabled:
            default_generator._seed, default_generator._offset = before


# -- distributions ----------------------------------------------------------------------------------------------------


@cython.cfunc
def _floating(dtype: DTypeLike | None) -> Any:
    dtype = dtypes.get_default() if dtype is None else as_dtype(dtype)
    if not dtype.is_floating_point:
        raise UnsupportedDTypeError(
            f"\"uniform\" not implemented for '{TYPE_NAMES[dtype.name]}'",
            expected="a floating-point dtype",
            got=dtype.name,
            fix="draw floats and convert, or use randint",
        )
    return dtype


@cython.cfunc
def _finished(result: Tensor, requires_grad: bool, absent: bool = False) -> Any:
    """A result as a leaf; `absent` on the device meta."""
    result = result.detach() if result.requires_grad else result
    if absent:
        result = moved(result, True)
    if requires_grad:
        result.requires_grad = True
    return result


@cython.cfunc
def _no_negative(shape: Shape) -> Shape:
    """A shape. Errors: RuntimeError on a negative size."""
    for size in shape:
        if size < 0:
            raise ShapeError(
                f"Trying to create tensor with negative dimension {size}: {list(shape)}",
                expected="sizes >= 0",
                got=str(list(shape)),
                fix="check the sizes",
            )
    return shape


@cython.cfunc
def _draw(
    law: Callable[..., Tensor],
    size: tuple[object, ...],
    generator: Generator | None,
    dtype: DTypeLike | None,
    requires_grad: bool,
    absent: bool,
) -> Any:
    """Numbers of a law; `absent` on the device meta, which draws none."""
    shape = _no_negative(sizes(size))
    dtype = dtypes.get_default() if dtype is None else as_dtype(dtype)
    if absent:
        kept = dtype if dtype.is_complex else _floating(dtype)
        return _finished(without_memory(shape, kept), requires_grad)
    need_room(shape, dtype)
    if dtype.is_complex:
        real = dtype.to_real()
        scale = 1.0 if law is unit else math.sqrt(0.5)
        return _finished(
            call(
                "complex", law(shape, real, generator) * scale, law(shape, real, generator) * scale
            ),
            requires_grad,
        )
    return _finished(law(shape, _floating(dtype), generator), requires_grad)


@cython.cfunc
def _drawn(
    law: Callable[..., Tensor],
    size: tuple[object, ...],
    generator: Generator | None,
    dtype: DTypeLike | None,
    requires_grad: bool,
    out: Tensor | None,
    device: DeviceLike | None,
) -> Any:
    """`_draw`, into `out` where there is one."""
    if out is None:
        return _draw(law, size, generator, dtype, requires_grad, on_meta(device, "rand"))
    drawn = _draw(law, size, generator, dtype or out._dtype, requires_grad, out.is_meta)
    return write_out(out, drawn)


def rand(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Uniform numbers in [0, 1)."""
    return _drawn(unit, size, generator, dtype, requires_grad, out, device)


def randn(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Normal numbers of mean 0 and variance 1."""
    return _drawn(standard_normal, size, generator, dtype, requires_grad, out, device)


@cython.cfunc
def _drawn_like(
    law: Callable[..., Tensor],
    input: Tensor,
    generator: Generator | None,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    requires_grad: bool,
) -> Any:
    """`_draw` in the shape, of the type and on the device of a tensor, unless others are named."""
    absent = on_meta(input.device if device is None else device, "rand_like")
    wanted = input._dtype if dtype is None else dtype
    return _draw(law, (input._shape,), generator, wanted, requires_grad, absent)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Any:
    """Uniform numbers in the shape and type of a tensor."""
    return _drawn_like(unit, input, generator, dtype, device, requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Any:
    """Normal numbers in the shape and type of a tensor."""
    return _drawn_like(standard_normal, input, generator, dtype, device, requires_grad)


@cython.cfunc
def _check_range(low: int, high: int) -> None:
    if low >= high:
        raise ArgumentError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
            expected="low < high",
            got=f"low={low}, high={high}",
            fix="swap them",
        )


@cython.cfunc
def _check_fits(low: int, high: int, dtype: DType) -> None:
    """Errors: RuntimeError where an integer type does not hold the first or the last number of [low, high)."""
    if dtype.category > 1:
        return
    least = _least(dtype)
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value < _span(dtype):
            raise ArgumentError(
                f"{name} is out of bounds for {dtype.name}",
                expected=f"numbers from {least} to {_span(dtype) - 1}",
                got=f"low={low}, high={high}",
                fix="choose a wider dtype",
            )


def randint(
    *arguments: int | Sequence[int],
    low: int | None = None,
    high: int | None = None,
    size: int | Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Integers in [low, high): randint(high, size) or randint(low, high, size)."""
    rest: list[Any] = list(arguments)
    if size is None and rest:
        size = rest.pop()
    if high is None and rest:
        high = rest.pop()
    if low is None:
        low = rest.pop() if rest else 0
    if rest or size is None or high is None:
        raise ArgumentTypeError(
            "randint() received an invalid combination of arguments",
            expected="randint(high, size) or randint(low, high, size)",
            got=f"{len(arguments)} positional arguments",
            fix="pass high and the size as a tuple",
        )
    low, high = need_integer("randint", low, "low"), need_integer("randint", high, "high")
    _check_range(low, high)
    if out is None:
        return _whole(low, high, sizes((size,)), generator, dtype, requires_grad, device)
    wanted = out._dtype if dtype is None else dtype
    return write_out(
        out, _whole(low, high, sizes((size,)), generator, wanted, requires_grad, out.device)
    )


@cython.cfunc
def _whole(
    low: int,
    high: int,
    shape: Shape,
    generator: Generator | None,
    dtype: DTypeLike | None,
    requires_grad: bool,
    device: DeviceLike | None,
) -> Any:
    """Integers in [low, high)."""
    wanted = dtypes.int64 if dtype is None else as_dtype(dtype)
    _no_negative(shape)
    _check_fits(low, high, wanted)
    if on_meta(device, "randint"):
        return _finished(without_memory(shape, wanted), requires_grad)
    return _finished(cast(integers(low, high, shape, generator), wanted), requires_grad)


def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **ignored: object,
) -> Any:
    """Integers in [low, high) (or [0, low)) in the shape and type of a tensor; high alone by keyword is also taken."""
    low, high = (0, low) if high is None else (low, high)
    _check_range(low, high)
    where = input.device if device is None else device
    wanted = input._dtype if dtype is None else dtype
    return _whole(low, high, input._shape, generator, wanted, requires_grad, where)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Any:
    """A random order of 0 .. n - 1: the order of n random 63-bit keys. Errors: RuntimeError on a negative n, and on a
    dtype that does not hold all of the numbers."""
    n = need_integer("randperm", n, "n")
    if n < 0:
        raise ArgumentError(
            f"n must be non-negative, got {n}", expected="n >= 0", got=str(n), fix="check n"
        )
    absent = on_meta(device, "randperm") if out is None else out.is_meta
    wanted = _counting(n, dtypes.int64 if out is None else out._dtype, dtype)
    drawn = without_memory((n,), wanted) if absent else order(wide((n,), generator), 0, n)
    drawn = cast(drawn, wanted)
    return _finished(drawn, requires_grad) if out is None else write_out(out, drawn)


def _counting(n: int, usual: DType, dtype: DTypeLike | None) -> Any:
    """The type of a permutation of n numbers: `dtype`, or the usual one. Errors: RuntimeError where it holds fewer."""
    wanted = usual if dtype is None else as_dtype(dtype)
    if wanted.category not in (1, 2):
        raise UnsupportedDTypeError(
            f"\"randperm\" not implemented for '{TYPE_NAMES[wanted.name]}'",
            expected="a dtype of integers or floating-point numbers",
            got=wanted.name,
            fix="draw int64 and convert",
        )
    most = _span(wanted) + (wanted.category == 2)  # every number up to 2**digits, which is one too
    if n > most:
        raise ArgumentError(
            f"n cannot be greater than {most} for {TYPE_NAMES[wanted.name]} type.",
            expected=f"n <= {most}",
            got=f"n={n}",
            fix="choose a wider dtype",
        )
    return wanted


def normal(
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Normal numbers; mean and std are numbers or tensors, broadcast."""
    if size is not None:  # numbers for all elements
        mean, std = _real("normal", mean, "mean"), _real("normal", std, "std")
    if isinstance(std, (int, float)) and std < 0:
        raise ArgumentError(
            f"normal expects std >= 0.0, but found std {std}",
            expected="std >= 0",
            got=str(std),
            fix="pass a positive number",
        )
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if isinstance(std, Tensor):
        std = need_within("normal", "std", std)
    if tensors:
        shape = broadcast_shapes([x._shape for x in tensors], "normal")
        wanted = tensors[0]._dtype
    else:
        shape = read_size("normal", (size,)) if size is not None else ()
        wanted = _floating(dtype if out is None else out._dtype)
    absent = not tensors and on_meta(device, "normal")
    drawn = standard_normal(shape, wanted, generator) * std + mean
    result = _flat(_finished(drawn, requires_grad, absent), *tensors)
    return result if out is None else write_out(out, result)


def _flat(drawn: Tensor, *parameters: Tensor) -> Any:
    """A draw, whose gradients by its parameters are zeros."""
    if not any([x.requires_grad for x in parameters]):
        return drawn
    from weft.functional.support.not_differentiable import flat

    return flat(drawn, *parameters)


def bernoulli(
    input: Tensor,
    p: float | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Any:
    """1 with the probability that each element says (or `p`), else 0."""
    need_tensor("bernoulli", input)
    chance = input if p is None else p
    if p is None and not input._dtype.is_floating_point:
        raise UnsupportedDTypeError(
            f"\"bernoulli_tensor_cpu_p_\" not implemented for '{TYPE_NAMES[input._dtype.name]}'",
            expected="floating-point probabilities",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if out is not None:
        check_apart(out, (input,))
    dtype = input._dtype if out is None else out._dtype
    result = cast(_coins(input._shape, chance, generator), dtype).detach()
    if p is None:
        result = _flat(result, input)
    return result if out is None else write_out(out, result)


def _real(function: str, value: object, argument: str) -> float:
    """A real number, checked before any random number is drawn. Errors: ArgumentTypeError."""
    if isinstance(value, (int, float, np.integer, np.floating)):
        return value  # type: ignore[return-value]
    if isinstance(value, Tensor) and not value._shape and not value._dtype.is_complex:
        return value.item()
    raise ArgumentTypeError(
        f"{function}(): argument '{argument}' must be float, not {class_name(value)}",
        expected="a number",
        got=describe(argument, value) if isinstance(value, Tensor) else repr(value),
        fix="pass one number for all elements",
    )


def _coins(shape: Shape, p: TensorLike, generator: Generator | None) -> Any:
    if isinstance(p, Tensor):
        p = expand(need_within("bernoulli", "p", p), shape)
    elif not 0 <= _real("bernoulli", p, "p") <= 1:
        raise ArgumentError(
            f"bernoulli_ expects p to be in [0, 1], but got p={p}",
            expected="0 <= p <= 1",
            got=str(p),
            fix="pass a probability",
        )
    bits = cast(chosen(generator).bits(shape), dtypes.float64)
    limit = cast(p.detach(), dtypes.float64) * 2.0**32 if isinstance(p, Tensor) else p * 2.0**32
    return bits < limit


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Any:
    """Indices drawn with the weights of each row. Reads the weights. Shapes: (n) or (m, n) -> (..., num_samples)."""
    need_tensor("multinomial", input)
    if len(input._shape) not in (1, 2):
        raise ShapeError(
            "prob_dist must be 1 or 2 dim",
            expected="weights (n) or (m, n)",
            got=describe("input", input),
            fix="reshape the weights",
        )
    if input._dtype.category != 2:
        raise DTypeError(
            f"multinomial only supports floating-point dtypes for input, got: {input._dtype.name}",
            expected="weights of a floating-point type",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if out is not None and out._dtype is not dtypes.int64:
        raise DTypeError(
            f"multinomial expects Long tensor out, got: {out._dtype.name}",
            expected="out= of int64",
            got=describe("out", out),
            fix="pass weft.empty(0, dtype=weft.int64)",
        )
    num_samples = need_integer("multinomial", num_samples, "num_samples")
    weights = host.to_numpy(input).astype(np.float64)
    _check_weights(weights, num_samples, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    source = chosen(generator)
    if replacement:
        draws = host.to_numpy(unit((len(rows), num_samples), dtypes.float64, source))
        edges = np.cumsum(rows, 1)
        found = np.stack(
            [
                np.searchsorted(edge, draw * edge[-1], "right")
                for edge, draw in zip(edges, draws, strict=True)
            ]
        )
        found = np.minimum(found, [np.flatnonzero(row)[-1:] for row in rows])
        result = host.from_numpy(found.reshape(*weights.shape[:-1], num_samples).astype(np.int64))
    else:
        result = _first_of_races(input.detach(), num_samples, source)
    return result if out is None else write_out(out, result)


def _first_of_races(weights: Tensor, count: int, source: Generator) -> Any:
    """The indices that are through first where each takes an exponential time at the rate of its weight."""
    draws = unit(weights._shape, dtypes.float64, source)
    rates = cast(weights, dtypes.float64)
    runs = rates > 0
    times = call("log1p", -draws) / call("where", runs, -rates, 1)
    return order(call("where", runs, times, math.inf), len(weights._shape) - 1, count)


MOST_CATEGORIES = 2**24  # categories in a row of weights, as in PyTorch


def _not_weights(weights: Array, one_by_one: bool) -> str:
    """PyTorch's error text for invalid weights: it has two checks, by the way in which numbers are drawn."""
    if not one_by_one:
        return "probability tensor contains either `inf`, `nan` or element < 0"
    entry = "< 0" if np.any(weights < 0) else "= infinity or NaN"
    return f"invalid multinomial distribution (encountering probability entry {entry})"


def _check_weights(weights: Array, count: int, replacement: bool) -> None:
    if count <= 0:
        raise ArgumentError(
            "cannot sample n_sample <= 0 samples",
            expected="num_samples > 0",
            got=str(count),
            fix="pass 1 or more",
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ArgumentError(
            _not_weights(weights, replacement and count > 1),
            expected="finite weights >= 0",
            got="others",
            fix="use softmax, or clamp the weights",
        )
    if weights.shape[-1] > MOST_CATEGORIES:
        raise ArgumentError(
            "number of categories cannot exceed 2^24",
            expected=f"at most {MOST_CATEGORIES} weights in a row",
            got=str(weights.shape[-1]),
            fix="draw a block first, then a category of it",
        )
    if not replacement and count > weights.shape[-1]:
        raise ArgumentError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            expected=f"num_samples <= {weights.shape[-1]}",
            got=str(count),
            fix="pass replacement=True",
        )
    if np.any(weights.sum(-1) <= 0):
        raise ArgumentError(
            "invalid multinomial distribution (sum of probabilities <= 0)",
            expected="a positive sum",
            got="a row of zeros",
            fix="add a small number to the weights",
        )


# -- in place ------------------------------------------------------------------------------------------------------


def _numbers(
    law: Callable[..., Tensor],
    input: Tensor,
    generator: Generator | None,
    scale: float,
    shift: float,
) -> Any:
    """Numbers of a law, scaled and shifted, in the type of a tensor: complex ones in both parts."""
    dtype = input._dtype
    if is_on_meta(input):
        return without_memory(input._shape, dtype)
    if not dtype.is_complex:
        return _moved(law, input._shape, _floating(dtype), generator, scale, shift)
    draws = [_moved(law, input._shape, dtype.to_real(), generator, scale, shift) for _ in range(2)]
    return call("complex", *draws)


def _moved(
    law: Callable[..., Tensor],
    shape: Shape,
    dtype: DType,
    generator: Generator | None,
    scale: float,
    shift: float,
) -> Any:
    """Numbers of a law times `scale`, plus `shift`; adding 0 would change a normal number, -0.0."""
    draw = law(shape, dtype, generator)
    scaled = draw if scale == 1 else draw * scale
    return scaled if shift == 0 and law is unit else scaled + shift


def _fill(input: Tensor, draw: Callable[[], Tensor]) -> Any:
    """Numbers as the value of a tensor, converted to its type; none are drawn for the device meta."""
    absent = is_on_meta(input)
    drawn = without_memory(input._shape, input._dtype) if absent else cast(draw(), input._dtype)
    return mutate(input, drawn)


def _start(function: str, keywords: Mapping[str, float], positional: float | None) -> Any:
    """The argument `from`, which Python can name in no signature. Errors: ArgumentTypeError on other keywords."""
    unknown = next((key for key in keywords if key != "from"), None)
    if unknown is not None:
        raise ArgumentTypeError(
            f"{function}() got an unexpected keyword argument '{unknown}'",
            expected="from, to and generator",
            got=f"{unknown}={keywords[unknown]!r}",
            fix="leave it away",
        )
    return keywords.get("from", positional)


def uniform_(
    input: Tensor,
    from_: float = 0.0,
    to: float = 1.0,
    *,
    generator: Generator | None = None,
    **keywords: float,
) -> Any:
    """Uniform numbers in [from, to), in place."""
    low = _real("uniform_", _start("uniform_", keywords, from_), "from")
    to = _real("uniform_", to, "to")
    if low > to:
        raise ArgumentError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}",
            expected="from <= to",
            got=f"from={low}, to={to}",
            fix="swap them",
        )
    return in_place(input, _numbers(unit, input, generator, to - low, low))


def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Normal numbers, in place."""
    mean, std = _real("normal_", mean, "mean"), _real("normal_", std, "std")
    if std < 0:
        raise ArgumentError(
            f"normal expects std >= 0.0, but found std {std}",
            expected="std >= 0",
            got=str(std),
            fix="pass a positive number",
        )
    scale = std * math.sqrt(0.5) if input._dtype.is_complex else std
    return in_place(input, _numbers(standard_normal, input, generator, scale, mean))


def bernoulli_(input: Tensor, p: TensorLike = 0.5, *, generator: Generator | None = None) -> Any:
    """1 with probability p (a number or a tensor), else 0, in place."""
    return _fill(input, lambda: _coins(input._shape, p, generator))


def random_(
    input: Tensor,
    from_: int | None = None,
    to: int | None = None,
    *,
    generator: Generator | None = None,
    **keywords: int,
) -> Any:
    """Integers in [from, to), in place; random_(to) starts at 0, random_() spans the type."""
    low = _start("random_", keywords, from_)
    if to is None:
        low, to = 0, _span(input._dtype) if low is None else low
    low = 0 if low is None else low
    _check_range(low, to)
    _check_fits(low, to, input._dtype)
    return _fill(input, lambda: integers(low, to, input._shape, generator))


@cache
def _least(dtype: DType) -> int:
    """The least number of a type of integers or truth values."""
    return 0 if dtype.category == 0 else int(np.iinfo(dtype.numpy).min)


@cache
def _span(dtype: DType) -> int:
    """The count of numbers from 0 on that a dtype has without a gap."""
    if dtype.category == 2:
        return int(2 ** {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name])
    return 2 if dtype.category == 0 else int(np.iinfo(dtype.numpy).max) + 1


def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Exponential numbers of rate lambd, in place. Errors: RuntimeError on integers."""
    if not input._dtype.is_floating_point:
        raise DTypeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
            f"you specified {input._dtype.name}",
            expected="a floating-point tensor",
            got=input._dtype.name,
            fix="convert with .float()",
        )
    lambd = _real("exponential_", lambd, "lambd")
    if not lambd > 0:
        raise ArgumentError(
            f"exponential_ expects lambda > 0.0, but found lambda={lambd}",
            expected="lambd > 0",
            got=str(lambd),
            fix="pass a positive rate",
        )
    wide = dtypes.float64 if input._dtype is dtypes.float64 else dtypes.float32
    return _fill(
        input, lambda: call("log", 1 - unit(input._shape, wide, generator)) * (-1.0 / lambd)
    )


FUNCTIONS = by_name(
    Generator, manual_seed, seed, initial_seed, get_rng_state, set_rng_state, rand, randn, rand_like, randn_like,
    randint, randint_like, randperm, normal, bernoulli, multinomial, thread_safe_generator,
)  # fmt: skip
METHODS = by_name(uniform_, normal_, bernoulli_, random_, exponential_, bernoulli, multinomial)
__all__ = [*FUNCTIONS, "default_generator", "fork_rng"]
