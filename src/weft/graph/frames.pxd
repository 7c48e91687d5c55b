from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        unsigned long long id
    PyThreadState* PyThreadState_Get() nogil
    int PyGC_Disable()
    int PyGC_Enable()

# The innermost frame whose code is not the library's own, or the outermost one. CPython 3.11 keeps frames that no
# Python object stands for until somebody asks for one; they are read where they lie. Other versions are asked by
# the public functions, which make the object. The code object is borrowed from the frame.
cdef extern from *:
    """
    typedef int (*weft_judge)(PyObject *code);

    #if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif
    #include "internal/pycore_frame.h"

    static PyObject *weft_caller(weft_judge is_internal, int *offset) {
        _PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame;
        _PyInterpreterFrame *last = NULL;
        for (; frame != NULL; frame = frame->previous) {
            if (_PyFrame_IsIncomplete(frame))
                continue;
            last = frame;
            if (!is_internal((PyObject *)frame->f_code))
                break;
        }
        if (last == NULL)
            return NULL;
        int place = _PyInterpreterFrame_LASTI(last);
        *offset = place < 0 ? -1 : place * (int)sizeof(_Py_CODEUNIT);
        return (PyObject *)last->f_code;
    }
    #else
    static PyObject *weft_caller(weft_judge is_internal, int *offset) {
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        PyObject *code = NULL;
        while (frame != NULL) {
            PyFrameObject *back = NULL;
            code = (PyObject *)PyFrame_GetCode(frame);
            if (is_internal(code))
                back = PyFrame_GetBack(frame);
            if (back == NULL)
                *offset = PyFrame_GetLasti(frame);
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
        }
        return code;
    }
    #endif
    """
    ctypedef int (*weft_judge)(PyObject*)
    PyObject* weft_caller(weft_judge is_internal, int* offset)

cdef enum:
    SEEN = 256  # code objects whose origin is remembered

cdef PyObject* caller(int* offset) noexcept

# A number that no other thread of this process has had.
cdef inline unsigned long long thread_id() noexcept:
    return PyThreadState_Get().id

cdef dict _known
cdef PyObject* _codes[SEEN]
cdef bint[SEEN] _verdicts
