from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        const char* tp_name
        void* tp_dict
        Py_ssize_t tp_dictoffset
        unsigned long tp_flags
        destructor tp_dealloc
    unsigned long Py_TPFLAGS_BASETYPE
    unsigned long Py_TPFLAGS_HAVE_GC
    void PyType_Modified(PyTypeObject*)
    PyTypeObject* Py_TYPE(PyObject*)
    void Py_SET_TYPE(PyObject*, PyTypeObject*)
    void Py_INCREF(object)
    void Py_DECREF(object)

# Make an object an instance of the class again that it was made as.
cdef inline void show_as_made(PyObject* dying, object cls) noexcept:
    cdef PyTypeObject* shown = Py_TYPE(dying)
    if <void*>shown != <void*>cls:
        Py_SET_TYPE(dying, <PyTypeObject*>cls)
        Py_DECREF(<object>shown)
