from weft.engine.capi.growable_array cimport Array
from weft.engine.pipeline.lowering.kernel_encoder cimport Builder
from weft.engine.pipeline.launch_ir cimport KernelSpec, Lowering
from weft.engine.pipeline.program_ir cimport Kernel

cdef int put_pointers(Lowering lowering, Builder builder, Array* pointers) except -1
cdef int put_key(Builder builder, Py_ssize_t axis, Array* key) except -1
cdef int put_classes(Builder builder, Array* regions, Py_ssize_t number, Array* key) except -1
cdef tuple region_key(Builder builder, Array* regions, Py_ssize_t number)
cdef int put_steps(Builder builder, Array* regions, Array* arguments) except -1
cdef tuple loop_key(Builder builder, Py_ssize_t axis)
cdef KernelSpec find_spec(Builder builder)
cdef int put_arguments(Builder builder, Array* arguments) except -1

cdef void lower_loops(Lowering lowering, Kernel kernel)
cdef void launch_loops(Lowering lowering, Builder builder, Array* pointers)
