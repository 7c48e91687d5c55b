"""The bits of a handle's view transform: the elementwise function that turns a storage's content into what the handle
shows.

`weft.functional.shape.view_transforms` defines the bits. `SPARSE` means that the handle has no dense memory: its data
is in `.indices()` and `.values()` (`weft.sparse`).
"""

# Conjugate, see complex numbers as pairs of real ones, change the sign, see pairs of real numbers as complex ones; show
# nothing of the storage at all, but what indices and values of its own say; and see the bytes as another type.
CONJUGATE, PARTS, NEGATE, JOIN, SPARSE, BITS = 1, 2, 4, 8, 16, 32
