"""The bits of a handle's lens: what is done to what its storage holds to get what the handle shows.

`weft.functional.shape.view_transforms` says what they mean; what has no dense value of its own (`SPARSE`) is left to
`weft.sparse`.
"""

# Conjugate, see complex numbers as pairs of real ones, change the sign, see pairs of real numbers as complex ones; show
# nothing of the storage at all, but what indices and values of its own say; and see the bytes as another type.
CONJUGATE, PARTS, NEGATE, JOIN, SPARSE, BITS = 1, 2, 4, 8, 16, 32
