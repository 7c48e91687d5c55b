from weft.engine.capi.growable_array cimport Array
from weft.engine.devices.api cimport Device
from weft.engine.ir.dtype cimport DType
from weft.engine.pipeline.lowering.kernel_encoder cimport KernelEncoder
from weft.engine.pipeline.launch_ir cimport KernelSpec, Lowering

cdef int put_pointers(Lowering lowering, KernelEncoder encoder, Array* pointers) except -1
cdef int put_key(KernelEncoder encoder, Array* key) except -1
cdef int put_classes(KernelEncoder encoder, Array* regions, Py_ssize_t number, Array* key) except -1
cdef tuple region_key(KernelEncoder encoder, Array* regions, Py_ssize_t number)
cdef int put_steps(KernelEncoder encoder, Array* regions, Array* arguments) except -1
cdef tuple loop_key(KernelEncoder encoder)
cdef KernelSpec find_spec(KernelEncoder encoder)
cdef int put_arguments(KernelEncoder encoder, Array* arguments) except -1
cdef KernelEncoder copy_loop(Device device, DType dtype, tuple shape, tuple source, tuple target)
