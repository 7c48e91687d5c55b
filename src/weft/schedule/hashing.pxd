# One step of a rolling hash over words: what `agenda` and `signature` find equal structure by.

cdef inline unsigned long long mix(unsigned long long h, long long x) noexcept:
    h = (h ^ <unsigned long long>x) * <unsigned long long>0x9E3779B97F4A7C15
    return h ^ (h >> 29)
