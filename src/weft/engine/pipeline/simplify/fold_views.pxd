from weft.engine.pipeline.program_ir cimport Program

cpdef void fold_views(Program program)
