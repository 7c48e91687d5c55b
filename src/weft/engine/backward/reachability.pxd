from cpython.object cimport PyObject
from weft.engine.capi.int_array cimport Integers
from weft.engine.ir.node cimport Node
from weft.engine.ir.prefetch cimport FAR, NEAR, NEXT, prefetch, prefetch_node, prefetch_parts

# What a walk knows of a record that it has reached, by the record's number. The record is borrowed: the roots hold it by
# way of edges, which nothing lets go of before it dies.
cdef struct Reached:
    PyObject* record
    int consumers  # that have been reached and are not done
    int group  # the number of the batch that it is a member of; -1 where it goes by itself
    int member  # which member it is
    int first  # where its edges begin among `targets`

cdef class Reachability:
    cdef long long stamp
    cdef Reached* known  # the records by number, which each has in `walk_number`; and one more behind the last
    cdef int count
    cdef Py_ssize_t room
    cdef Integers targets  # the numbers of what the edges of all records lead to; -1 is nothing of this walk
    cdef dict captured
    cdef int observed
    cdef dict joined  # outputs of several, and the edge to the record of them all
    cdef list displaced  # the numbers that the walk around this one keeps on its records
    cdef void displace(self, object record)
    cdef void put_back(self)
    cdef void discover(self, list roots)
    cdef void check_usable(self)
    cdef int reach(self, object edge) except? -1
    cdef long long enter(self, object record) except? -1
    cdef void make_room(self, Py_ssize_t room)
    cdef int inspect(self, Node node) except? -1
    cdef int lead_to(self, tuple edges) except? -1
    cdef int lead(self, object edge) except? -1
    cdef int lead_to_terms(self, Node node) except? -1
    cdef bint begins(self, object edge) except? -1
    cdef int visit(self, Node node) except? -1
    cdef void join_outputs(self, Node node)
    cdef tuple below(self, object record)
    cdef tuple beneath(self, object record)
    cdef list records(self)
    cdef void prune(self)
    cdef void renumber(self, list kept)
    cdef int number_of(self, object edge) except? -2
    cdef bint wanted(self, int number) noexcept

cdef int give_up(Node node) except -1
cdef tuple sum_edges(Node node, Py_ssize_t count)
cdef object multi_output_of(Node node)
cdef object target_of(object edge)

# The number of a record in the walk that reached it last: the low half of `walk_number`, whose high half is the walk's.
cdef inline int number_in(long long walk_number) noexcept:
    return <int>walk_number

# Ask for the records that come soon, for their edges, and for where these lead.
cdef inline void prefetch_reached(Reached* known, int number, int count) noexcept:
    cdef char* soon
    cdef object record
    if number + FAR >= count:
        return
    soon = <char*>known[number + FAR].record
    prefetch_node(soon)
    record = <object>known[number + NEAR].record
    if isinstance(record, Node):
        prefetch(<void*>(<Node>record).edges)
    record = <object>known[number + NEXT].record
    if isinstance(record, Node) and (<Node>record).edges is not None:
        prefetch_parts((<Node>record).edges)
