# What the compiled runtime takes from the C library and the compiler.

from libc.stdint cimport int64_t, uint64_t

cdef extern from * nogil:
    int __ATOMIC_RELAXED
    int __ATOMIC_ACQUIRE
    int __ATOMIC_RELEASE
    int __ATOMIC_SEQ_CST
    uint64_t atomic_load "__atomic_load_n"(uint64_t* where, int order)
    void atomic_store "__atomic_store_n"(uint64_t* where, uint64_t value, int order)
    uint64_t atomic_exchange "__atomic_exchange_n"(uint64_t* where, uint64_t value, int order)
    uint64_t atomic_add "__atomic_add_fetch"(uint64_t* where, uint64_t value, int order)
    bint atomic_compare_exchange "__atomic_compare_exchange_n"(
        uint64_t* where, uint64_t* expected, uint64_t value, bint weak, int success, int failure)
    int count_leading_zeros "__builtin_clzll"(unsigned long long value)

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass
    const fenv_t* FE_DFL_ENV
    int fegetenv(fenv_t* environment)
    int fesetenv(const fenv_t* environment)

cdef extern from "<sys/mman.h>" nogil:
    int PROT_NONE
    int PROT_READ
    int PROT_WRITE
    int MAP_PRIVATE
    int MAP_ANONYMOUS
    int MAP_FIXED
    int MAP_NORESERVE
    int MADV_HUGEPAGE
    void* MAP_FAILED
    void* mmap(void* address, size_t length, int protection, int flags, int file, long offset)
    int munmap(void* address, size_t length)
    int mprotect(void* address, size_t length, int protection)
    int madvise(void* address, size_t length, int advice)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t* signals)
    int pthread_sigmask(int how, const sigset_t* new, sigset_t* old)

# Linux lets a thread say where it runs, and asks for large pages. Elsewhere (macOS; nobody has run that) it runs
# anywhere, on pages as they come.
cdef extern from * nogil:
    """
    #include <sched.h>
    #include <sys/mman.h>
    #ifndef __linux__
    typedef struct { int unused; } cpu_set_t;
    #define CPU_SET(core, cores)
    #define CPU_CLR(core, cores)
    #define CPU_COUNT(cores) 0
    #define CPU_EQUAL(a, b) 0
    #define sched_getcpu() (-1)
    #define pthread_getaffinity_np(thread, size, cores) (-1)
    #define pthread_setaffinity_np(thread, size, cores) (-1)
    #define MADV_HUGEPAGE MADV_NORMAL
    #endif
    """
    ctypedef struct cpu_set_t:
        pass
    int sched_yield()
    int sched_getcpu()
    void CPU_SET(int core, cpu_set_t* cores)
    void CPU_CLR(int core, cpu_set_t* cores)
    int CPU_COUNT(cpu_set_t* cores)
    bint CPU_EQUAL(cpu_set_t* a, cpu_set_t* b)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_attr_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_mutexattr_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                       void* (*body)(void*) noexcept nogil, void* argument)
    int pthread_detach(pthread_t thread)
    int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t* cores)
    int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* cores)
    int pthread_mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)
    int pthread_cond_init(pthread_cond_t* condition, const pthread_condattr_t* attributes)
    int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex)
    int pthread_cond_signal(pthread_cond_t* condition)
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)
