from weft.engine.devices.trace cimport Labels
from weft.engine.pipeline.launch_ir cimport Lowering
from weft.engine.pipeline.program_ir cimport Program

cdef Labels labels_of(Program program, Lowering lowering)
