# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Random numbers under PyTorch's names: the default generator's state, and new tensors of distributions.

Shapes and parameters come in; tensors that are computed when they are read go out. Where the numbers come from is
`weft.functional.random.generator`'s part; draws into a tensor are in `in_place_draws` beside it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import cython

from weft._build.compiled import require
from weft.engine.api.api_function import publish
from weft.engine.api.argument_names import need_dense
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    ShapeError,
    UnsupportedDTypeError,
)
from weft.functional.random import in_place_draws
from weft.functional.random.generator import (
    Generator,
    default_generator,
    integers,
    standard_normal,
    unit,
    wide,
)
from weft.functional.random.multinomial import multinomial
from weft.functional.random.parameters import (
    check_fits,
    check_range,
    coins,
    floating,
    real_number,
    span,
)
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
    no_kernel,
    sizes,
)
from weft.tensor.creation.factories import read_size
from weft.tensor.device import on_meta
from weft.tensor.memory.host_memory import need_room
from weft.tensor.meta import moved

if TYPE_CHECKING:
    from weft._typing import DeviceLike, DTypeLike, TensorLike
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
        kept = dtype if dtype.is_complex else floating(dtype)
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
    return _finished(law(shape, floating(dtype), generator), requires_grad)


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
    need_dense("rand", layout)
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
    need_dense("randn", layout)
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
    need_dense("rand_like", layout)
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
    need_dense("randn_like", layout)
    return _drawn_like(standard_normal, input, generator, dtype, device, requires_grad)


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
    need_dense("randint", layout)
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
    check_range(low, high)
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
    check_fits(low, high, wanted)
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
    need_dense("randint_like", ignored.get("layout"))
    low, high = (0, low) if high is None else (low, high)
    check_range(low, high)
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
    need_dense("randperm", layout)
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
            no_kernel_for("randperm", wanted.name),
            expected="a dtype of integers or floating-point numbers",
            got=wanted.name,
            fix="draw int64 and convert",
        )
    most = span(wanted) + (wanted.category == 2)  # every number up to 2**digits, which is one too
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
    need_dense("normal", layout)
    if size is not None:  # numbers for all elements
        mean, std = real_number("normal", mean, "mean"), real_number("normal", std, "std")
    if isinstance(std, (int, float)) and std < 0:
        raise ArgumentError(
            f"normal expects std >= 0.0, but found std {std}",
            expected="std >= 0",
            got=str(std),
            fix="pass a positive number",
        )
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if isinstance(std, Tensor):
        if std._dtype.is_complex:
            raise UnsupportedDTypeError(
                "normal expects standard deviation to be non-complex",
                expected="real numbers",
                got=describe("std", std),
                fix="take .abs() or .real",
            )
        std = need_within("normal", "std", std)
    if tensors:
        shape = broadcast_shapes([x._shape for x in tensors], "normal")
        wanted = tensors[0]._dtype
        if wanted.category < 2:
            raise no_kernel("normal_kernel_cpu", tensors[0])
    else:
        shape = read_size("normal", (size,)) if size is not None else ()
        wanted = floating(dtype if out is None else out._dtype)
    absent = not tensors and on_meta(device, "normal")
    drawn = cast(standard_normal(shape, wanted, generator) * std + mean, wanted)
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
            no_kernel_for("bernoulli_tensor_cpu_p_", input._dtype.name),
            expected="floating-point probabilities",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if out is not None:
        check_apart(out, (input,))
    dtype = input._dtype if out is None else out._dtype
    result = cast(coins(input._shape, chance, generator), dtype).detach()
    if p is None:
        result = _flat(result, input)
    return result if out is None else write_out(out, result)


FUNCTIONS = by_name(
    Generator, manual_seed, seed, initial_seed, get_rng_state, set_rng_state, rand, randn, rand_like, randn_like,
    randint, randint_like, randperm, normal, bernoulli, multinomial, thread_safe_generator,
)  # fmt: skip
METHODS = {**in_place_draws.METHODS, **by_name(bernoulli, multinomial)}
__all__ = [*FUNCTIONS, "default_generator", "fork_rng"]

publish(globals())
