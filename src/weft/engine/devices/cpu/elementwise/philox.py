"""Philox4x32-10, the counter-based random number generator of Salmon et al. (SC 2011).

A 64-bit counter and a 64-bit key per lane give word 0 of the block; the other two counter words
are zero.  Nothing is stored, so that a random mask can be computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.devices.cpu.llvm.builder import I64, Value

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = (1 << 32) - 1


def philox(e: Emitter, key: Value, counter: Value) -> Value:
    """Word 0 of the block, as i64 in [0, 2**32)."""
    b = e.builder
    mask, width = e.literal(WORD, I64), e.literal(32, I64)
    keys = [b.and_(key, mask), b.lshr(key, width)]
    words = [b.and_(counter, mask), b.lshr(counter, width), e.literal(0, I64), e.literal(0, I64)]
    first, second = (e.literal(value, I64) for value in MULTIPLIERS)
    for number in range(ROUNDS):
        if number:
            bumped = zip(keys, WEYL, strict=True)
            keys = [b.and_(b.add(k, e.literal(step, I64)), mask) for k, step in bumped]
        low, high = b.mul(words[0], first), b.mul(words[2], second)
        words = [
            b.xor(b.xor(b.lshr(high, width), words[1]), keys[0]),
            b.and_(high, mask),
            b.xor(b.xor(b.lshr(low, width), words[3]), keys[1]),
            b.and_(low, mask),
        ]
    return words[0]
