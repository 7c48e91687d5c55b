# cython: language_level=3
"""Fingerprints: a recorded structure as words of memory and a list of objects, with a hash.

A client puts words and parts, and calls `digest` when all are there. Equal hashes are confirmed by full comparison
(`equals`): a collision costs time and never gives a wrong answer.
"""

import cython
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.weft.engine.capi.growable_array import drop, empty
from cython.cimports.weft.engine.capi.hashing import equal, mix
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.replay.fingerprint import (
    NONE,
    OTHER,
    REAL,
    TRUTH,
    TYPE,
    WHOLE,
    PyLong_AsLongLongAndOverflow,
    put,
    put_part,
    reserve,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

MOST_SPARE = cython.declare(
    cython.Py_ssize_t, 1 << 16
)  # words of memory that waits to be used again
PART_BYTES = cython.declare(cython.Py_ssize_t, 64)  # an estimate of the memory of one part


_spare = empty()  # of a fingerprint that has died: most live for one look


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Fingerprint:
    """Words and parts, in the order in which they were put."""

    def __cinit__(self):
        global _spare
        self.words = _spare
        self.words.count = 0
        _spare = empty()

    def __dealloc__(self):
        global _spare
        if _spare.room == 0 and self.words.room <= MOST_SPARE:
            _spare = self.words
        else:
            drop(cython.address(self.words))

    @cython.cfunc
    @cython.exceptval(check=False)
    def shrink(self) -> cython.void:
        """It is to stay: give up the memory that it does not need."""
        count: cython.Py_ssize_t = self.words.count
        words: cython.p_void = realloc(self.words.words, (count + 1) * 8)
        if words != cython.NULL:
            self.words.words = cython.cast(cython.p_longlong, words)
            self.words.room = count + 1

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
        if count != other.words.count or (self.parts is None) != (other.parts is None):
            return False
        if count > 0 and memcmp(self.words.words, other.words.words, 8 * count) != 0:
            return False
        return self.parts is None or _are_equal(self.parts, other.parts)

    @cython.cfunc
    @cython.exceptval(check=False)
    def nbytes(self) -> cython.Py_ssize_t:
        """About the memory that it takes."""
        return 8 * self.words.room + (0 if self.parts is None else PART_BYTES * len(self.parts))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _are_equal(some: list, others: list) -> cython.bint:
    """True if the objects of two lists are equal, one by one."""
    index: cython.Py_ssize_t
    if len(some) != len(others):
        return False
    for index in range(len(some)):
        if not equal(some[index], others[index]):
            return False
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_plain(key: Fingerprint, entry) -> cython.bint:
    """Put an argument that is no tensor, with its type: 1, 1.0 and True are equal, 0.0 and -0.0 too. False for what is
    neither a number, a word, a dtype nor None."""
    kind = type(entry)
    reserve(key, 2)
    if entry is None:
        put(key, NONE)
    elif kind is int:
        overflow: cython.int = 0
        whole: cython.longlong = PyLong_AsLongLongAndOverflow(entry, cython.address(overflow))
        put(key, OTHER if overflow else WHOLE)
        if overflow:
            put_part(key, entry)
        else:
            put(key, whole)
    elif kind is float:
        number: cython.double = entry
        bits: cython.longlong = 0
        memcpy(cython.address(bits), cython.address(number), 8)
        put(key, REAL)
        put(key, bits)
    elif kind is bool:
        put(key, TRUTH | cython.cast(cython.longlong, entry is True) << 4)
    elif kind is DType:
        put(key, TYPE | cython.cast(cython.longlong, cython.cast(DType, entry).code) << 4)
    elif kind is str:
        put(key, OTHER)
        put_part(key, entry)
    else:
        return False
    return True
