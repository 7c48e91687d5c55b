from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        unsigned long long id
    PyThreadState* PyThreadState_Get() nogil
    int PyGC_Disable()
    int PyGC_Enable()

# The innermost frame whose code is not the library's own, or the outermost one: its code object, borrowed, and its
# place, a number for the instruction in it and the way from there through the library's frames (`weft_place`).
# CPython 3.11 keeps frames that no Python object stands for until somebody asks for one; they are read where they
# lie. Other versions are asked by the public functions, which make the object.
cdef extern from *:
    """
    typedef int (*weft_judge)(PyObject *code);

    /* One more library frame on the way. Lines and instructions, not addresses: the same numbers on every run. */
    static unsigned int weft_way(unsigned int way, PyObject *code, int instruction) {
        unsigned int line = (unsigned int)((PyCodeObject *)code)->co_firstlineno;
        return (way ^ (line << 14) ^ (unsigned int)instruction) * 0x9E3779B1u + 1;
    }

    /* 18 bits of instruction and 13 of the way; -1: unknown; below: an instruction far on in a giant function. */
    static int weft_place(int instruction, unsigned int way) {
        if (instruction < 0)
            return -1;
        if (instruction >= 1 << 18)
            return -2 - instruction;
        return instruction | (int)(way >> 19 << 18);
    }

    #if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif
    #include "internal/pycore_frame.h"

    static PyObject *weft_caller(weft_judge is_internal, int *place) {
        unsigned int way = 0;
        _PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame;
        _PyInterpreterFrame *last = NULL;
        for (; frame != NULL; frame = frame->previous) {
            if (_PyFrame_IsIncomplete(frame))
                continue;
            last = frame;
            if (!is_internal((PyObject *)frame->f_code))
                break;
            way = weft_way(way, (PyObject *)frame->f_code, _PyInterpreterFrame_LASTI(frame));
        }
        if (last == NULL)
            return NULL;
        *place = weft_place(_PyInterpreterFrame_LASTI(last), way);
        return (PyObject *)last->f_code;
    }
    #else
    static PyObject *weft_caller(weft_judge is_internal, int *place) {
        unsigned int way = 0;
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        PyObject *code = NULL;
        while (frame != NULL) {
            PyFrameObject *back = NULL;
            code = (PyObject *)PyFrame_GetCode(frame);
            if (is_internal(code))
                back = PyFrame_GetBack(frame);
            int offset = PyFrame_GetLasti(frame);
            int instruction = offset < 0 ? -1 : offset / 2;
            if (back == NULL)
                *place = weft_place(instruction, way);
            else
                way = weft_way(way, code, instruction);
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
        }
        return code;
    }
    #endif
    """
    ctypedef int (*weft_judge)(PyObject*)
    PyObject* weft_caller(weft_judge is_internal, int* place)

cdef enum:
    SEEN = 256  # code objects whose origin is remembered

cdef PyObject* caller(int* place) noexcept

# A number that no other thread of this process has had.
cdef inline unsigned long long thread_id() noexcept:
    return PyThreadState_Get().id

cdef dict _known
cdef PyObject* _codes[SEEN]
cdef bint[SEEN] _verdicts
