# `level` counts up to LAST_LEVEL, which stands for all that follow.

cdef enum:
    LAST_LEVEL = 32000
    MOST_SLOTS = 64

cdef class Order:
    cdef Py_ssize_t count
    cdef int* waits  # per node: operands that have not run
    cdef int* starts  # per node: where its readers begin in `readers`
    cdef int* readers
    cdef int* height  # per node: the longest way to a live value; 0 for the dead
    cdef int* slot  # per node: the kind whose levels it is counted in, below MOST_SLOTS; -1 for none
    cdef int* level  # per node with a slot: how many of its kind follow each other on the longest way to it, itself included
    cdef int* sorted  # nodes, operands first; once they are linked
    cdef Py_ssize_t sorted_count
    cdef int* pairs  # positions of an operand and of its reader
    cdef Py_ssize_t filled
    cdef Py_ssize_t room
    cdef int note(self, long long source_position, long long reader) except -1
    cdef int link(self) except -1
    cdef void measure(self, char* needed) noexcept
    cdef int rank(self, Py_ssize_t width) except -1
    cdef int sort(self) except -1
    cdef int* numbers(self, Py_ssize_t count)
