from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        unsigned long long id
    PyThreadState* PyThreadState_Get() nogil
    int PyGC_Disable()
    int PyGC_Enable()

# The innermost frame whose code is not the library's own, or the outermost one: its code object, borrowed,
# and a number for the instruction in it and the path from there through the library's frames
# (`weft_call_site`). CPython makes a Python object for a frame only when one is asked for; frames are read in
# place. Their layout changes with each version: `weft_frame_*` is all that has to be known of it. Unknown
# versions are asked through the public functions, which make the object. (3.14 is written from its headers
# and has not been run.)
cdef extern from *:
    """
    typedef int (*weft_judge)(PyObject *code);

    /* One more library frame on the way. Lines and instructions, not addresses: the same numbers on every run. */
    static unsigned int weft_library_path(unsigned int path, PyObject *code, int instruction) {
        unsigned int line = (unsigned int)((PyCodeObject *)code)->co_firstlineno;
        return (path ^ (line << 14) ^ (unsigned int)instruction) * 0x9E3779B1u + 1;
    }

    /* 18 bits of instruction and 13 of the way; -1: unknown; below: an instruction far on in a giant function. */
    static int weft_call_site(int instruction, unsigned int path) {
        if (instruction < 0)
            return -1;
        if (instruction >= 1 << 18)
            return -2 - instruction;
        return instruction | (int)(path >> 19 << 18);
    }

    #if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif

    #if PY_VERSION_HEX >= 0x030E0000
    #include "internal/pycore_interpframe_structs.h"
    #define weft_frame_innermost(thread) ((thread)->current_frame)
    /* The two low bits of a reference tell how it is counted. */
    #define weft_frame_code(frame) ((PyCodeObject *)((frame)->f_executable.bits & ~(uintptr_t)3))
    #define weft_frame_first(frame) ((_Py_CODEUNIT *)weft_frame_code(frame)->co_code_adaptive)
    #define weft_frame_instruction(frame) ((int)((frame)->instr_ptr - weft_frame_first(frame)))

    /* Whether a frame lies between C and Python, or has not come to its first line. */
    static inline int weft_frame_is_incomplete(struct _PyInterpreterFrame *frame) {
        if (frame->owner == FRAME_OWNED_BY_GENERATOR)
            return 0;
        return frame->owner >= FRAME_OWNED_BY_INTERPRETER ||
               weft_frame_instruction(frame) < weft_frame_code(frame)->_co_firsttraceable;
    }
    #else
    #include "internal/pycore_frame.h"
    #define weft_frame_instruction _PyInterpreterFrame_LASTI
    #define weft_frame_is_incomplete _PyFrame_IsIncomplete
    #if PY_VERSION_HEX >= 0x030D0000
    #define weft_frame_innermost(thread) ((thread)->current_frame)
    #define weft_frame_code _PyFrame_GetCode
    #else
    #define weft_frame_innermost(thread) ((thread)->cframe->current_frame)
    #define weft_frame_code(frame) ((frame)->f_code)
    #endif
    #endif

    static PyObject *weft_caller(weft_judge is_internal, int *call_site) {
        unsigned int path = 0;
        struct _PyInterpreterFrame *frame = weft_frame_innermost(PyThreadState_Get());
        struct _PyInterpreterFrame *last = NULL;
        for (; frame != NULL; frame = frame->previous) {
            if (weft_frame_is_incomplete(frame))
                continue;
            last = frame;
            if (!is_internal((PyObject *)weft_frame_code(frame)))
                break;
            path = weft_library_path(path, (PyObject *)weft_frame_code(frame), weft_frame_instruction(frame));
        }
        if (last == NULL)
            return NULL;
        *call_site = weft_call_site(weft_frame_instruction(last), path);
        return (PyObject *)weft_frame_code(last);
    }
    #else
    static PyObject *weft_caller(weft_judge is_internal, int *call_site) {
        unsigned int path = 0;
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
                *call_site = weft_call_site(instruction, path);
            else
                path = weft_library_path(path, code, instruction);
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
        }
        return code;
    }
    #endif
    """
    ctypedef int (*weft_judge)(PyObject*)
    PyObject* weft_caller(weft_judge is_internal, int* call_site)

cdef enum:
    SEEN_BITS = 12
    SEEN = 1 << SEEN_BITS  # code objects in the cache of origins

cdef PyObject* caller(int* call_site) noexcept

# A number that no other thread of this process has had.
cdef inline unsigned long long thread_id() noexcept:
    return PyThreadState_Get().id

cdef PyObject* _codes[SEEN]
cdef bint[SEEN] _verdicts
