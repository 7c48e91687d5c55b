"""`__torch_function__`: users' subclasses of Tensor, and modes that see what is done to plain tensors.

In come calls whose operands, or whose thread's mode, want to answer; out go their answers. Who asks in which order is
`weft.engine.dispatch.torch_function`. Start with `subclasses`.
"""
