from weft.engine.ir.mode cimport Mode
from weft.engine.ir.tape cimport Tape

cdef class Hub:
    cdef object function
    cdef object iterator
    cdef object greenlet
    cdef Tape tape
    cdef Mode mode
    cdef Fiber outer
    cdef list results
    cdef list waiting
    cdef list workers
    cdef dict bases
    cdef set drawn
    cdef object error
    cdef object explain
    cdef str called
    cdef Py_ssize_t first
    cdef Py_ssize_t bound
    cdef Py_ssize_t alive
    cdef long long start
    cdef bint exhausted
    cdef bint keep_errors
    cdef list run(self)
    cdef void fill(self) except *
    cdef void compute(self) except *
    cdef void advance(self) except *
    cdef void resume(self, Fiber fiber) except *
    cdef void settle(self, Fiber fiber) except *
    cdef void drop(self) except *
    cdef void close(self, list fibers) except *
    cdef bint alone(self) noexcept

cdef class Fiber:
    cdef Hub hub
    cdef Py_ssize_t index
    cdef object example
    cdef Mode mode
    cdef object place
    cdef dict streams
    cdef object result
    cdef object error
    cdef object thrown
    cdef bint direct
    cdef bint done
    cdef void switch(self) except *
    cdef void work(self) except *
    cdef void note_streams(self) except *
