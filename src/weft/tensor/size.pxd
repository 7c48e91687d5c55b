cdef extern from "Python.h":
    ctypedef object (*binaryfunc)(object, object)
    ctypedef struct PyMappingMethods:
        binaryfunc mp_subscript
    ctypedef struct PyTypeObject:
        PyMappingMethods* tp_as_mapping
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)
    void PyType_Modified(PyTypeObject*)

cdef PyTypeObject* _size_type
cdef binaryfunc _tuple_subscript
cpdef of_shape(tuple shape)
