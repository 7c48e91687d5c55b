"""Views and rearrangements: the same elements under another shape, other strides or in another order.

A function returns a handle of the same storage (`views`, `slicing`, `strided_regions`, `view_transforms`, `bitcast`),
or a node that copies (`rearrange`, `concat`, `view_copies`). Start with `views`.
"""
