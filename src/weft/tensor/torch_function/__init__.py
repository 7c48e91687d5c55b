"""`__torch_function__`: users' subclasses of Tensor, and modes that see what is done to plain tensors.

Operands, or a thread's mode, answer calls. `weft.engine.dispatch.torch_function` asks them in order. Start with
`subclasses`.
"""
