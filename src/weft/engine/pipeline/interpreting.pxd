from weft.engine.devices.api cimport Memory
from weft.engine.runtime.interpreter cimport Interpretation

cdef bint leaves_no_room(Memory memory, list pending) except -1
cdef bint interpret(Interpretation flush)
cdef bint settle_parts(list nodes) except -1
