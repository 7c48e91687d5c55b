"""What is recorded, the intermediate representation: nodes with value inputs and gradient edges, on a tape per thread.

`node` is one recorded operation, `primitive` the definition of an operation that it points to, `tape` the pending nodes
of a thread and the state of what it is doing, `grad_edges` what a cotangent is led to, `residuals` what a node keeps
for its derivative. Start with `node`.
"""
