# cython: language_level=3
"""Fingerprints: the structure of something recorded, as words of memory and a list of objects, with a hash.

A client puts words and parts, and calls `digest` when all are there. Equal hashes are confirmed by full comparison
(`equals`): a collision costs time and never gives a wrong answer.
"""

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.weft.engine.capi.growable_array import drop, empty
from cython.cimports.weft.engine.capi.hashing import equal, mix

from weft._build.compiled import require

require(__name__, cython.compiled)

PART_BYTES = cython.declare(cython.Py_ssize_t, 64)  # about what a part takes


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Fingerprint:
    """Words and parts, in the order in which they were put."""

    def __cinit__(self):
        self.words = empty()
        self.parts = []

    def __dealloc__(self):
        drop(cython.address(self.words))

    @cython.cfunc
    @cython.exceptval(check=False)
    def digest(self) -> cython.void:
        """Hash all words, in two strands that a processor works on at once."""
        words: cython.p_longlong = self.words.words
        count: cython.Py_ssize_t = self.words.count
        one: cython.ulonglong = self.seed + count
        other: cython.ulonglong = 1469598103
        index: cython.Py_ssize_t = 0
        while index + 1 < count:
            one = mix(one, words[index])
            other = mix(other, words[index + 1])
            index += 2
        if index < count:
            one = mix(one, words[index])
        self.hash = cython.cast(cython.longlong, mix(one, other) >> 1)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def equals(self, other: Fingerprint) -> cython.bint:
        """Full comparison: the same words, and equal parts."""
        count: cython.Py_ssize_t = self.words.count
        if count != other.words.count or len(self.parts) != len(other.parts):
            return False
        if count > 0 and memcmp(self.words.words, other.words.words, 8 * count) != 0:
            return False
        index: cython.Py_ssize_t
        for index in range(len(self.parts)):
            if not equal(self.parts[index], other.parts[index]):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def nbytes(self) -> cython.Py_ssize_t:
        """About the memory that it takes."""
        return 8 * self.words.room + PART_BYTES * len(self.parts)
