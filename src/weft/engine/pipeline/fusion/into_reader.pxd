from weft.engine.pipeline.program_ir cimport Program

cpdef void fuse_into_reader(Program program)
