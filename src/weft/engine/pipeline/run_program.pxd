from weft.engine.pipeline.fingerprint cimport FlushFingerprint
from weft.engine.pipeline.launch_ir cimport Lowering
from weft.engine.pipeline.memory_plan cimport Plan
from weft.engine.pipeline.program_ir cimport Program

cdef bint run_known(FlushFingerprint fingerprint)
cdef bint launch(
    FlushFingerprint fingerprint, FlushFingerprint bare, Program program, Plan memory, Lowering lowering, list pending
)
cdef void count(Py_ssize_t kernels, Py_ssize_t launches, Py_ssize_t nodes)
