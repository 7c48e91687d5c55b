"""The intermediate representation of the record: nodes with value inputs and gradient edges, on a tape per thread.

`node` is one recorded operation, `primitive` the definition of the operation that it points to, `tape` the pending
nodes of a thread and the state of what it is doing, `grad_edges` the targets of gradient edges, `residuals` what a
node keeps for its derivative. Start with `node`.
"""
