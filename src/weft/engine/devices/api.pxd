from weft.engine.devices.tuning cimport Tuning

cdef class Capabilities:
    cdef readonly long long longest_row
    cdef readonly long long scratch_margin
    cdef readonly long long alignment

cdef class Device:
    cdef readonly str name
    cdef readonly int number
    cdef readonly Capabilities capabilities
    cdef public Tuning tuning

cdef list DEVICES

cpdef Device default_device()
