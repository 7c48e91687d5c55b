# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""The source of randomness: generators, and uniform, normal and integer numbers of a shape.

A generator is a 64-bit key (the seed) and an offset. Each call takes the next numbers of the key's Philox sequence:
element i uses counter offset + i, and both are run-time arguments of the recorded operation. So the numbers do not
depend on threads, fusion or when they are computed, and dropout can compute them again instead of saving them. The
distributions under PyTorch's names are in `weft.random`.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.frontend.recorder import cast, record_elementwise
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.errors import ArgumentError, KindError
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import iota
from weft.ops.random_numbers import MANTISSA
from weft.tensor.arguments import Shape, describe

if TYPE_CHECKING:
    from weft._typing import DeviceLike
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.primitive import Primitive


require(__name__, cython.compiled)

_devices = later("weft.tensor.device")
_BITS, _WIDE, _WHOLE = OPS["random_bits"], OPS["random_wide"], OPS["random_integers"]
_UNIFORM = {dtypes.by_name(name): OPS[f"uniform_{name}"] for name in MANTISSA}
_NORMAL_32, _NORMAL_64 = OPS["normal_float32"], OPS["normal_float64"]


def note_draw(generator: Generator | None) -> None:
    """Tell the maps around (`weft.func.vmap`) that numbers are drawn. Errors: RuntimeError where they may not."""
    contexts = tapes.tape().mode.contexts
    if contexts is not None:
        for randomness in contexts.randomness or ():
            randomness.note(generator)


class Generator:
    """A sequence of random numbers: a seed and how many have been drawn.

    Example:
        >>> import weft
        >>> g = weft.Generator().manual_seed(7)
        >>> x = weft.rand(2, generator=g)  # draws of their own, beside those of weft.manual_seed
        >>> weft.equal(x, weft.rand(2, generator=g.manual_seed(7)))
        True
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        _devices.need_cpu(device, "Generator")
        self.device = _devices.CPU
        self.own = [67280421310721, 0]
        fiber = tapes.tape().mode.fiber
        if fiber is not None:
            fiber.adopt(self)

    def place(self) -> list[int]:
        """Seed and offset, to be read and written: an example of `weft.map` has its own."""
        fiber = tapes.tape().mode.fiber
        return self.own if fiber is None else fiber.stream_of(self)  # type: ignore[no-any-return]

    @property
    def _seed(self) -> int:
        return self.place()[0]

    @_seed.setter
    def _seed(self, value: int) -> None:
        self.place()[0] = value

    @property
    def _offset(self) -> int:
        return self.place()[1]

    @_offset.setter
    def _offset(self, value: int) -> None:
        self.place()[1] = value

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence of a seed.

        Args:
            seed: a whole number; a negative one counts from 2^64 down.
        """
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ArgumentError(
                "Overflow when unpacking long long",
                expected="a 64-bit seed",
                got=str(seed),
                fix="take it modulo 2**64",
            )
        self._seed = seed % 2**64
        self._offset = 0
        return self

    def seed(self) -> int:
        """Start at a seed from the operating system, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the present sequence."""
        return self._seed

    def get_state(self) -> Any:
        """Seed and offset as 16 bytes (a uint8 tensor)."""
        return host.from_numpy(np.array([self._seed, self._offset], np.uint64).view(np.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from what `get_state` gave.

        Args:
            new_state: what `get_state` of a generator gave.

        Raises:
            ArgumentError for anything else.
        """
        values = np.ascontiguousarray(host.to_numpy(new_state))
        if values.dtype != np.uint8 or values.size != 16:
            raise KindError(
                "RNG state must be a torch.ByteTensor"
                if values.dtype != np.uint8
                else f"Expected a generator state of size 16 but found the input RNG state size to be {values.size}",
                expected="16 bytes from get_state()",
                got=describe("new_state", new_state),
                fix="pass the tensor that get_state() returned",
            )
        seed, offset = values.view(np.uint64)
        self._seed, self._offset = int(seed), int(offset)
        return self

    def get_offset(self) -> int:
        """The number of draws from the seed's sequence so far."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Go on behind so many numbers of the seed's sequence.

        Args:
            offset: how many numbers of the sequence are passed over.

        Raises:
            ArgumentError for a negative one.
        """
        if not 0 <= int(offset) < 2**63:
            raise ArgumentError(
                "set_offset: the offset counts numbers that have been drawn",
                expected="0 or more, below 2**63",
                got=str(offset),
                fix="pass what get_offset() returned",
            )
        self._offset = int(offset)

    def clone_state(self) -> Generator:
        """A generator that goes on from the same place."""
        copy = Generator(self.device)
        copy._seed, copy._offset = self._seed, self._offset
        return copy

    def bits(self, shape: Shape) -> Any:
        """The next numbers in [0, 2^32), one per element, as int64.

        Args:
            shape: the shape of the result.
        """
        return self.draw(_BITS, shape, 1)

    def draw(self, op: Primitive, shape: Shape, draws: int, span: int | None = None) -> Any:
        """A tensor that an op of `weft.ops.random_numbers` makes of the next numbers, `draws` per element; the op may
        take a `span` instead of the number of elements.

        Args:
            op: a random row of the op table.
            shape: the shape of the result.
            draws: how many numbers of the sequence an element takes.
            span: how many numbers the whole draw takes; None: `draws` for each element.
        """
        note_draw(self)
        place = self.place()
        seed, offset = place
        count = math.prod(shape)
        key = seed - 2**64 if seed >= 2**63 else seed
        operands = (key, offset, iota(shape), count if span is None else span)
        made = record_elementwise(op, operands[: len(op.operands)], None)
        place[1] = offset + draws * count  # now: a shape that is refused draws nothing
        return made


default_generator = Generator()


def stream_of_example(seed: int, offset: int, index: int) -> int:
    """The seed that an example of `weft.map` draws from, by the generator's place at the call: the mixing function of
    SplitMix64 (Steele, Lea and Flood 2014), once for each number."""
    key = 0
    for word in (seed, offset, index):
        key = ((key ^ word) + 0x9E3779B97F4A7C15) % 2**64
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        key = (key ^ key >> 27) * 0x94D049BB133111EB % 2**64
        key ^= key >> 31
    return key


def chosen(generator: Generator | None) -> Generator:
    """The generator given, or the default one."""
    return default_generator if generator is None else generator


# -- distributions on a shape --------------------------------------------------------------------------------------


def unit(shape: Shape, dtype: DType, generator: Generator | None = None) -> Any:
    """Uniform numbers in [0, 1): the top 24 bits (53 from two draws for float64; 11 and 8 for the half types)."""
    return chosen(generator).draw(_UNIFORM[dtype], shape, 2 if dtype is dtypes.float64 else 1)


def standard_normal(shape: Shape, dtype: DType, generator: Generator | None = None) -> Any:
    """Normal numbers by Box and Muller (1958), from two uniform numbers each."""
    source = chosen(generator)
    if dtype is dtypes.float64:
        return source.draw(_NORMAL_64, shape, 4)
    return cast(source.draw(_NORMAL_32, shape, 2), dtype)


def integers(low: int, high: int, shape: Shape, generator: Generator | None = None) -> Any:
    """Integers in [low, high) as int64. Bias: at most span / 2^32 for spans up to 2^31 (span / 2^63 above)."""
    span, source = high - low, chosen(generator)
    if span <= 2**31:
        made = source.draw(_WHOLE, shape, 1, span)
        made = made if low == 0 else made + low
        return trusted(made, high) if low >= 0 else made
    drawn = wide(shape, source)
    return (drawn if span >= 2**63 else call("remainder", drawn, span)) + low


def wide(shape: Shape, generator: Generator | None = None) -> Any:
    """Integers of 63 bits as int64, from two numbers each."""
    return chosen(generator).draw(_WIDE, shape, 2)


def keep_mask(shape: Shape, p: float, generator: Generator | None = None) -> Any:
    """A mask that is false with probability p: what dropout multiplies with."""
    return chosen(generator).bits(shape) >= round(p * 2**32)
