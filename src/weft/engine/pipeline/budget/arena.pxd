# Where an instance of a value lies, and the actions from and to which it lives.
cdef struct ArenaSpan:
    long long begin
    long long end
    long long first
    long long last
