# cython: language_level=3
"""Values on other devices: a copy is a node like others, which runs when something reads it."""

import cython
from cython.cimports.weft.engine.devices.api import several
from cython.cimports.weft.engine.frontend.meta import number_of_device
from cython.cimports.weft.engine.frontend.node_factory import copy_over
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.frontend.node_factory import watch_devices
from weft.engine.frontend.tensor_lifecycle import wrap_node

require(__name__, cython.compiled)


def copy_to(device, tensor: Tensor, op: Primitive):
    """A tensor's value on another device, without gradient edges; `op` is the primitive that copies."""
    watch_devices(op)
    return wrap_node(copy_over(value(tensor), device.number))


def beside(tensor: Tensor, made: Tensor):
    """A tensor, on the device of another one."""
    if not several or number_of_device(tensor) == number_of_device(made):
        return made
    return wrap_node(copy_over(value(made), number_of_device(tensor)))
