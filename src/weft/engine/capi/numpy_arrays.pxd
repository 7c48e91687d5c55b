from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

# What NumPy's binary interface fixes of an array's head (`PyArrayObject_fields`).
cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        char *data;
        int rank;
        Py_ssize_t *shape;
        Py_ssize_t *strides;
        PyObject *base;
        PyObject *dtype;
        int flags;
    } weft_array_head;
    """
    ctypedef struct ArrayHead "weft_array_head":
        char* data
        int rank
        Py_ssize_t* shape
        Py_ssize_t* strides
        PyObject* base
        PyObject* dtype
        int flags

cdef enum:
    C_CONTIGUOUS = 1
    OWNDATA = 4
    WRITEABLE = 0x400
    MOST_DIMENSIONS = 64

ctypedef PyObject* (*NewFromDescr)(PyObject* kind, PyObject* dtype, int rank, Py_ssize_t* shape, Py_ssize_t* strides,
                                   void* data, int flags, PyObject* other) except NULL
ctypedef int (*SetBaseObject)(PyObject* array, PyObject* base) except -1

cdef object strided_array(object base, uintptr_t start, uintptr_t end, uintptr_t first, object dtype,
                          Py_ssize_t itemsize, tuple shape, tuple strides, bint writable)
cdef object memory_view(object owner)

cdef inline ArrayHead* head(object array) noexcept:
    return <ArrayHead*><PyObject*>array
