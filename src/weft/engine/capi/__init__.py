"""Access to the insides of CPython and C: type slots, the vectorcall protocol, frames, free lists, plain arrays.

Nothing here knows tensors. The rest of the engine cimports it, so that what a new CPython changes is in one folder.
Start with `type_slots`.
"""
