cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    ctypedef struct PyFrameObject:
        pass
    PyThreadState* PyThreadState_Get() nogil
    unsigned long long PyThreadState_GetID(PyThreadState*) nogil
    PyFrameObject* PyThreadState_GetFrame(PyThreadState*)
    void* PyFrame_GetCode(PyFrameObject*)
    PyFrameObject* PyFrame_GetBack(PyFrameObject*)
    int PyFrame_GetLasti(PyFrameObject*)
    void Py_XDECREF(void*)
    int PyGC_Disable()
    int PyGC_Enable()

cdef object caller_code()
cdef int caller_offset()
cdef unsigned long long thread_id()

cdef int _offset
cdef dict _known
cdef object _last
cdef bint _last_internal
