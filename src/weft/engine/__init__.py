"""The engine: from a call on tensors to machine code that has run, and back along the gradients.

In the order in which a program passes through it: `frontend` records calls as nodes of the `ir`, `dispatch` decides
who answers a call, `backward` records what the chain rule adds, `pipeline` turns pending nodes into launches of
`kernels`, `runtime` runs them on one of the `devices`. `capi` knows the insides of CPython and C. The operations are
defined in `weft.ops`. Start with `pipeline.driver`, which joins the stages.
"""
