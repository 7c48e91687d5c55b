"""Function transforms: derivatives, Jacobians and maps of functions, which nest arbitrarily.

A transform of a function is its derivative (`derivatives`, `jacobians`), or the function over a batch. `vmap` lays
what one example records over all (`mapping`, `lifting`); `map` runs each example as it is written, in fibers that wait
for each other where values are read (`fibers`). Start with `derivatives`.
"""

from weft.engine.api.api_function import publish
from weft.func.compatibility import (
    debug_unwrap,
    functionalize,
    replace_all_batch_norm_modules_,
)
from weft.func.derivatives import grad, grad_and_value, jvp, linearize, vjp
from weft.func.jacobians import hessian, jacfwd, jacrev
from weft.func.mapping import vmap
from weft.func.modules import functional_call, stack_module_state
from weft.func.rearranging import rearrange

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

publish(globals())
