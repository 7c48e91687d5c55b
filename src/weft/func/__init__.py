"""Function transforms: derivatives, Jacobians and maps of functions, which nest arbitrarily."""

from weft.func.derivatives import grad, grad_and_value, jvp, linearize, vjp
from weft.func.jacobians import hessian, jacfwd, jacrev
from weft.func.mapping import vmap
from weft.func.modules import functional_call, stack_module_state
from weft.graph.public import publish

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

publish(globals())
