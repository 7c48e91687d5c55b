from weft.engine.ir.node cimport Node
from weft.engine.pipeline.batching.operand_columns cimport Column

cdef Node stack(Column column, dict stacks)
cdef Node in_place(Column column, dict stacks)
cdef Node gathered(Column column, dict stacks)
cdef void settle_view(Node node, Node below)
cdef Node gathered_sums(list members, dict stacks)
