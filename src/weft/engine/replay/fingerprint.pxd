from weft.engine.capi.growable_array cimport Array
from weft.engine.capi.growable_array cimport reserve as reserve_words
from weft.engine.capi.hashing cimport mix

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

# What the word of a plain argument begins with: what it is, in the lowest bits.
cdef enum:
    NONE = 1
    TRUTH = 2
    WHOLE = 3
    REAL = 4
    TYPE = 5
    OTHER = 6

cdef class Fingerprint:
    cdef Array words
    cdef list parts  # params and other objects that words cannot express; None if there are none
    cdef unsigned long long seed  # the hash of the parts that are hashed
    cdef readonly long long hash
    cdef void digest(self) noexcept
    cdef void shrink(self) noexcept
    cdef bint equals(self, Fingerprint other) except -1
    cdef Py_ssize_t nbytes(self) noexcept

cdef Array _spare

cdef bint put_plain(Fingerprint key, object entry) except -1

# Make room for so many more words.
cdef inline int reserve(Fingerprint key, Py_ssize_t more) except -1:
    if key.words.count + more > key.words.room:
        return reserve_words(&key.words, more)
    return 0

# Append a word, for which there is room.
cdef inline void put(Fingerprint key, long long word) noexcept:
    key.words.words[key.words.count] = word
    key.words.count += 1

# Append the sizes of a shape, for which there is room.
cdef inline void put_sizes(Fingerprint key, tuple shape) noexcept:
    for size in shape:
        put(key, <long long>size)

# Append an object that is compared, and not hashed.
cdef inline int put_object(Fingerprint key, object part) except -1:
    if key.parts is None:
        key.parts = []
    key.parts.append(part)
    return 0

# Append an object that is compared, and hashed.
cdef inline int put_part(Fingerprint key, object part) except -1:
    key.seed = mix(key.seed, hash(part))
    return put_object(key, part)
