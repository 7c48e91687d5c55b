"""The frontend of the record: tensor handles, and the recorder that turns each call on them into a node.

Calls on tensors put nodes on the thread's tape; nothing is computed. `tensor` is the class, `recorder` turns operators
into nodes, `inplace` gives a region of a storage its next value, `views` makes handles that share a storage. Start
with `recorder`.
"""
