from weft.engine.frontend.tensor cimport Tensor

# What a parameter is updated by, or None: of a leaf without asking its property.
cdef inline Tensor gradient_of(Tensor parameter):
    return parameter._grad if parameter.leaf_grad else parameter.grad
