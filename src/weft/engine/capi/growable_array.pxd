# Growable arrays of words, for records that are made by the thousand: operands, instructions and extents of kernels.

from libc.stdlib cimport free, realloc

cdef struct Array:
    long long* words
    Py_ssize_t count
    Py_ssize_t room

cdef inline Array empty() noexcept:
    cdef Array array
    array.words = NULL
    array.count = array.room = 0
    return array

cdef inline Array within(long long* words, Py_ssize_t room) noexcept:
    # An array in memory that is there, and not to be dropped: it must not grow beyond that room.
    cdef Array array
    array.words = words
    array.count = 0
    array.room = room
    return array

cdef inline int reserve(Array* array, Py_ssize_t more) except -1:
    # Make room for so many more words.
    cdef void* words
    if array.count + more > array.room:
        words = realloc(array.words, (2 * array.room + more + 8) * sizeof(long long))
        if words == NULL:
            raise MemoryError
        array.words = <long long*>words
        array.room = 2 * array.room + more + 8
    return 0

cdef inline int put(Array* array, long long word) except -1:
    if array.count == array.room:
        reserve(array, 1)
    array.words[array.count] = word
    array.count += 1
    return 0

cdef inline int extend(Array* array, Array* other) except -1:
    # Append the words of another array.
    cdef Py_ssize_t index
    reserve(array, other.count)
    for index in range(other.count):
        array.words[array.count + index] = other.words[index]
    array.count += other.count
    return 0

cdef inline void drop(Array* array) noexcept:
    free(array.words)
