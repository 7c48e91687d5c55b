"""The eager face of the representation: tensor handles, and the recorder that turns each call on them into a node.

In come calls on tensors, out go nodes on the thread's tape; nothing is computed. `tensor` is the class, `recorder` how
operators become nodes, `inplace` how a write gives a region of a storage its next value, `views` handles that share a
storage. Start with `recorder`.
"""
