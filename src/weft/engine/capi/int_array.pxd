cdef class Integers:
    cdef int* items
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef void make_room(self, Py_ssize_t room)
    cdef bint consecutive(self) noexcept
    cdef bint ascending(self) noexcept
    cdef bint equals(self, Integers other) noexcept
    cdef Integers copy(self)
    cdef void sort(self) noexcept
    cdef list listed(self)

cdef Integers integers(Py_ssize_t count, int item)
cdef void extend(Integers numbers, Integers others, int shift)

# Put one more behind the others.
cdef inline int push(Integers numbers, int item) except -1:
    if numbers.count == numbers.room:
        numbers.make_room(2 * numbers.room + 8)
    numbers.items[numbers.count] = item
    numbers.count += 1
    return 0
