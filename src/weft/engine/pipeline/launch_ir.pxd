from weft.engine.devices.api cimport Code, Memory
from weft.engine.ir.node cimport Node
from weft.engine.capi.growable_array cimport Array
from weft.engine.pipeline.program_ir cimport MemRef, Program
from weft.engine.pipeline.memory_plan cimport Plan

cdef class KernelSpec:
    cdef object __weakref__
    cdef readonly str name
    cdef readonly object build
    cdef readonly tuple symbols
    cdef public str key_text
    cdef public Code code  # None until it is compiled
    cdef public long long uses
    cdef readonly bint checked
    cdef public bint fused

cdef class SegmentTable:
    cdef readonly int slot
    cdef readonly int offsets_slot
    cdef readonly long long count
    cdef readonly long long bounds
    cdef readonly object data

    cdef int fill(self, size_t* addresses, Memory memory) except -1

cdef class Launch:
    cdef readonly KernelSpec spec
    cdef public bint final
    cdef long long* words  # pointers as (slot, byte offset), then arguments
    cdef Py_ssize_t pointer_count, argument_count
    cdef readonly long long units
    cdef readonly long long grain_size
    cdef readonly long long cost_ns
    cdef readonly int kernel
    cdef public SegmentTable table
    cdef readonly list members

cdef class Lowering:
    cdef readonly Program program
    cdef readonly Plan plan
    cdef public list launches
    cdef public list scratch
    cdef public int current
    cdef public object prepacked
    cdef public object layout  # a `budget.layout.Layout` where values share one arena, else None

    cdef tuple pointer(self, MemRef memref, long long itemsize)
    cdef int temporary(self, long long nbytes)

cdef Launch new_launch(
    Lowering lowering, KernelSpec spec, Array* pointers, Array* arguments, long long units, long long grain_size, long long cost_ns
)
cdef list joined(list members)
cdef Launch copy_launch(Launch launch, dict slots)
