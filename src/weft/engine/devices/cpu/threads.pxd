from libc.stdint cimport int64_t, uint32_t, uint64_t
from weft.engine.capi.atomics cimport cpu_set_t, pthread_cond_t, pthread_mutex_t, pthread_t

ctypedef void (*Kernel)(void** pointers, int64_t* arguments, int64_t begin, int64_t end) noexcept nogil

cdef enum:
    MAX_THREADS = 128
    MAX_PIECES = 4096
    SPIN_NS = 30000  # ns that a thread spins before it yields its core
    PATIENCE_NS = 1000000  # ns that a worker looks for work before it parks: waking it takes about 50000

cdef struct Job:
    # The units [begin, end) of an instruction that are being shared out, cut at multiples of the grain into equal pieces.
    Kernel kernel
    void** pointers
    int64_t* arguments
    int64_t begin
    int64_t end
    int64_t grain_size
    int64_t grains
    int64_t tasks

cdef struct Piece:
    # What a worker did of one launch: from the first piece that it took of it to the end of the last one.
    int64_t launch
    int64_t begin_ns
    int64_t end_ns
    unsigned long thread

cdef struct PieceLog:
    # The pieces of a run of a program; those of the launch that runs begin at `first`.
    Piece* items
    int64_t count
    int64_t room
    int64_t launch
    int64_t first

cdef struct Seat:
    # One thread's place. `range` packs ticket (32 bits), next piece (16) and end of pieces (16).
    uint64_t range
    uint64_t[15] pad_range  # other threads' seats stay out of this cache line
    uint64_t asleep
    Team* team
    int number
    int avoided  # one more than the core that its thread keeps off; 0: none
    cpu_set_t cores  # what it was last given; others may have changed them since
    pthread_t thread
    int64_t begin_ns  # when it took its first piece of the job, where there is a log; 0: it has none
    int64_t end_ns
    pthread_mutex_t mutex
    pthread_cond_t wake
    uint64_t[16] pad_seat

cdef struct Team:
    Job job
    PieceLog* log  # of whom wants to know what workers do; NULL: nobody
    uint32_t ticket
    uint64_t size  # seats that take part, the caller's (0) among them
    uint64_t started  # seats that have a thread, the caller's among them
    uint64_t[16] pad_job
    uint64_t finished
    uint64_t[16] pad_finished
    Seat[MAX_THREADS] seats

cdef int wanted_threads() except -1
cdef Team* enter(int wanted) noexcept nogil
cdef void leave(Team* team) noexcept nogil
cdef bint is_awake(Team* team) noexcept nogil
cdef void rouse(Team* team) noexcept nogil
cdef void share(Team* team, Job* job) noexcept nogil
