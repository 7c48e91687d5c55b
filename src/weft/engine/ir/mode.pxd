from weft.engine.capi.call_site cimport CallScope

# What the contexts around the running code ask for, each where its name says; None where no such context is.
cdef class Contexts:
    cdef readonly object anomaly
    cdef readonly object any_size
    cdef readonly object checkpoint_policy
    cdef readonly object hooks_disabled
    cdef readonly object mapping
    cdef readonly tuple randomness
    cdef readonly object recomputation_group
    cdef readonly object refuse_reads
    cdef readonly object transform
    cdef readonly object transposing
    cdef readonly object note_write
    cdef void _take(self, Contexts around)

cdef class Mode:
    cdef public bint grad
    cdef public bint inference
    cdef public bint eager
    cdef public bint anomaly
    cdef public long long walk
    cdef public bint chosen
    cdef public int intact
    cdef public tuple duals
    cdef public object saved_hooks
    cdef public Contexts contexts
    cdef public object fiber
    cdef CallScope scope
    cpdef bint is_plain(self) noexcept
    cpdef bint is_untransformed(self) noexcept
