cdef class Instance:
    cdef readonly Py_ssize_t slot
    cdef readonly list uses

cdef class Affinity:
    cdef readonly Py_ssize_t made
    cdef readonly Py_ssize_t ending
    cdef readonly long long shift  # from the begin of what ends to that of what is made
    cdef readonly long long nbytes
    cdef readonly object readers
    cdef readonly bint is_copy

cdef class BudgetSchedule:
    cdef readonly object graph
    cdef readonly list actions
    cdef readonly list times
    cdef readonly list instances
    cdef readonly list joined
    cdef readonly list alive
    cdef readonly double cost
    cdef readonly long long peak
    cdef readonly bint valid
    cdef list _present
    cdef set _on_file
    cdef list _reads
    cdef list _writes
    cdef list _affinities
    cdef list _met

    cdef void _run_all(self, dict drops)
    cdef _act(self, int kind, Py_ssize_t number, Py_ssize_t time)
    cdef void _run(self, Py_ssize_t step, Py_ssize_t time)
    cdef void _make(self, Py_ssize_t slot, Py_ssize_t action)
    cdef void _drop(self, Py_ssize_t slot, Py_ssize_t time, bint spilled)
    cdef void _bring_back(self, Py_ssize_t time)
    cdef list _to_run_again(self, Py_ssize_t time)
    cdef void _fetch_missing(self, Py_ssize_t step, Py_ssize_t time)
    cdef void _fetch(self, Py_ssize_t slot, Py_ssize_t time)
    cdef void _add_up(self)
    cdef bint _holds(self, Affinity affinity, Instance made, Instance ending)
