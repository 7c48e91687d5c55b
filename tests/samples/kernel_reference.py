"""What kernels mean, in NumPy: the reduction order, rounding to bfloat16, Philox."""

from __future__ import annotations

import numpy as np

BLOCK = 4096
LANES = 16


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 rounded to the nearest bfloat16 (halves to even), as bits."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), ((bits >> 16) | 0x40).astype(np.uint16), rounded)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 value of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _maximum(a, b):
    return np.where((a >= b) | (a != a), a, b)


def _minimum(a, b):
    return np.where((a <= b) | (a != a), a, b)


COMBINE = {
    "sum": np.add,
    "prod": np.multiply,
    "max": _maximum,
    "min": _minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def identity(kind: str, dtype: np.dtype):
    """What a missing lane holds."""
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    if dtype.kind == "b":
        return kind == "min"
    low, high = (
        (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    return low if kind == "max" else high


def reduce_last(values: np.ndarray, kind: str) -> np.ndarray:
    """Reduce the last axis in the fixed order; the dtype is that of the accumulator."""
    with np.errstate(all="ignore"):
        return _reduce_last(values, kind)


def _reduce_last(values: np.ndarray, kind: str) -> np.ndarray:
    *outer, length = values.shape
    combine, start = COMBINE[kind], identity(kind, values.dtype)
    blocks = max(1, -(-length // BLOCK))
    padded = np.full((*outer, blocks * BLOCK), start, values.dtype)
    padded[..., :length] = values
    steps = padded.reshape(*outer, blocks, BLOCK // LANES, LANES)
    lanes = np.full((*outer, blocks, LANES), start, values.dtype)
    for step in range(BLOCK // LANES):
        valid = (np.arange(blocks * BLOCK) < length).reshape(blocks, BLOCK // LANES, LANES)
        combined = combine(lanes, steps[..., step, :])
        lanes = np.where(valid[:, step], combined, lanes).astype(values.dtype)
    width = LANES
    while width > 1:
        width //= 2
        lanes = combine(lanes[..., :width], lanes[..., width : 2 * width]).astype(values.dtype)
    results = [lanes[..., block, 0] for block in range(blocks)]
    while len(results) > 1:
        pairs = [combine(a, b) for a, b in zip(results[::2], results[1::2], strict=False)]
        results = pairs + results[len(pairs) * 2 :]
    return np.asarray(results[0], values.dtype)


def philox(key: int, counter: int) -> int:
    """Word 0 of Philox4x32-10 with the two lower counter words given."""
    words = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        low, high = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (high >> 32) ^ words[1] ^ keys[0],
            high & 0xFFFFFFFF,
            (low >> 32) ^ words[3] ^ keys[1],
            low & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0]
