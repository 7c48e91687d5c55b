"""What knows the insides of CPython or of C: type slots, the vectorcall protocol, frames, free lists, plain arrays.

Nothing here knows tensors. The rest of the engine cimports it, so that what a new CPython changes is found in one
room. Start with `type_slots`.
"""
