from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        unsigned long long id
    PyThreadState* PyThreadState_Get() nogil
    int PyGC_Disable()
    int PyGC_Enable()

# `weft_caller`: from a frame outwards, the first whose code is not the library's own, or the last one: its code object,
# borrowed, and the number of the instruction in it. `weft_reaches`: whether an open frame is the innermost one, or no
# code but the library's own is further in. CPython makes a Python object for a frame only when one is asked for; frames
# are read in place. Their layout changes with each version: `weft_frame_*` is all that has to be known of it. Unknown
# versions are asked through the public functions, which make the object. (3.14 is written from its headers and has not
# been run.)
cdef extern from *:
    """
    typedef int (*weft_judge)(PyObject *code);

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

    static inline void *weft_innermost(void) {
        return weft_frame_innermost(PyThreadState_Get());
    }

    static int weft_reaches(weft_judge is_internal, void *opened) {
        struct _PyInterpreterFrame *frame = weft_frame_innermost(PyThreadState_Get());
        for (; (void *)frame != opened; frame = frame->previous)
            if (frame == NULL ||
                (!weft_frame_is_incomplete(frame) && !is_internal((PyObject *)weft_frame_code(frame))))
                return 0;
        return 1;
    }

    static inline PyObject *weft_caller(weft_judge is_internal, void *innermost, int *instruction) {
        struct _PyInterpreterFrame *frame = innermost;
        struct _PyInterpreterFrame *last = NULL;
        for (; frame != NULL; frame = frame->previous) {
            if (weft_frame_is_incomplete(frame))
                continue;
            last = frame;
            if (!is_internal((PyObject *)weft_frame_code(frame)))
                break;
        }
        if (last == NULL)
            return NULL;
        *instruction = weft_frame_instruction(last);
        return (PyObject *)weft_frame_code(last);
    }
    #else
    static inline void *weft_innermost(void) {
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        Py_XDECREF(frame);
        return frame;
    }

    static int weft_reaches(weft_judge is_internal, void *opened) {
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        int reached = 0;
        while (frame != NULL) {
            PyFrameObject *back = NULL;
            PyCodeObject *code = PyFrame_GetCode(frame);
            reached = (void *)frame == opened;
            if (!reached && is_internal((PyObject *)code))
                back = PyFrame_GetBack(frame);
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
        }
        return reached;
    }

    static PyObject *weft_caller(weft_judge is_internal, void *innermost, int *instruction) {
        PyFrameObject *frame = (PyFrameObject *)innermost;
        PyObject *code = NULL;
        Py_XINCREF(frame);
        while (frame != NULL) {
            PyFrameObject *back = NULL;
            code = (PyObject *)PyFrame_GetCode(frame);
            if (is_internal(code))
                back = PyFrame_GetBack(frame);
            int offset = PyFrame_GetLasti(frame);
            *instruction = offset < 0 ? -1 : offset / 2;
            Py_DECREF(code);
            Py_DECREF(frame);
            frame = back;
        }
        return code;
    }
    #endif
    """
    ctypedef int (*weft_judge)(PyObject*)
    void* weft_innermost() noexcept
    PyObject* weft_caller(weft_judge is_internal, void* innermost, int* instruction)
    int weft_reaches(weft_judge is_internal, void* opened)

cdef enum:
    SEEN_BITS = 12
    SEEN = 1 << SEEN_BITS  # code objects in the cache of origins
    SITE_SPREAD = 0x9E3779B1  # odd, so that sites of one scope differ
    OWN_CALL = 1  # base of a scope that user code opens by calling the library

# A call of library code, as far as operations are told apart by it. Each operation but views, and each scope, that is
# opened in it counts one; where that happens in the source does not count, nor in which file, nor if it is compiled.
# `frame` is the innermost frame as the scope was opened (NULL: there is no scope): operations that user code
# records in a callback, further in, are not of it.
cdef struct CallScope:
    void* frame
    PyObject* code  # what `caller` says of all its operations, once one has asked; NULL before
    int instruction
    unsigned int base  # a hash of the way to it, from the user's call on
    unsigned int count

cdef PyObject* caller(int* instruction) noexcept
cdef PyObject* caller_of_scope(CallScope* scope, int* instruction) noexcept
cdef PyObject* site_in_scope(
    CallScope* scope, int* instruction, unsigned int* library_site, bint is_view) noexcept
cdef void open_within(CallScope* scope, CallScope* around) noexcept

# (A number of more than 31 bits without a U is an object to Cython.)
#
# The highest bit of a scope's base, and so of the sites in it: a derivative's rule is at work.
cdef inline unsigned int rule_bit(unsigned int base) noexcept:
    return base & 0x80000000U

cdef inline unsigned int site_number(unsigned int base, unsigned int count) noexcept:
    return ((base + count) * SITE_SPREAD & 0x7FFFFFFFU) | rule_bit(base)

# The library site of one more operation, or scope, of a scope.
cdef inline unsigned int next_site(CallScope* scope) noexcept:
    scope.count += 1
    return site_number(scope.base, scope.count)

# The library site of the first operation in a scope.
cdef inline unsigned int first_site(unsigned int base) noexcept:
    return site_number(base, 1)

# Open a scope that has the same base wherever it is opened.
cdef inline void begin_scope(CallScope* scope, unsigned int base) noexcept:
    scope.base = base
    scope.code = NULL
    scope.frame = weft_innermost()
    scope.count = 0

# Open a scope in the present one, which is kept to be put back.
cdef inline void open_scope(CallScope* scope, CallScope* around) noexcept:
    around.frame = scope.frame
    if scope.frame == NULL:
        begin_scope(scope, OWN_CALL)
    else:
        open_within(scope, around)

cdef inline void close_scope(CallScope* scope, CallScope* around) noexcept:
    if around.frame == NULL:
        scope.frame = NULL
    else:
        scope[0] = around[0]

# A number that no other thread of this process has had.
cdef inline unsigned long long thread_id() noexcept:
    return PyThreadState_Get().id

cdef PyObject* _codes[SEEN]
cdef bint[SEEN] _verdicts
