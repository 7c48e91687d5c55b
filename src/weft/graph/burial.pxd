from cpython.object cimport PyObject

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)
    bint PyTuple_CheckExact(PyObject*)

cdef void bury(object child) noexcept
cdef void drain() noexcept

cdef bint _draining
cdef PyObject** _graveyard
cdef Py_ssize_t _first  # the next to be freed; those before it are gone
cdef Py_ssize_t _buried
cdef Py_ssize_t _room

# Free what was buried, unless a loop above already does.
cdef inline void end_burial() noexcept:
    if not _draining and _buried > 0:
        drain()
