from cpython.object cimport PyObject

cdef void bury(object child) noexcept
cdef void drain() noexcept
cdef void end_burial() noexcept

cdef bint _draining
cdef PyObject** _graveyard
cdef Py_ssize_t _buried
cdef Py_ssize_t _room
