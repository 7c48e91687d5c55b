cdef enum:
    DEFERRED = 1  # it stays recorded though its flush has run, and no handle makes it run
    CHECKPOINT = 2  # it has its value, keeps its inputs, and can become recorded again

cdef int shortage  # how often a program did not fit beside the checkpoints of others
