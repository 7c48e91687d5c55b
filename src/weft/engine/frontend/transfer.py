# cython: language_level=3
"""Values on other devices: a copy is a node like others, which runs when something reads it."""

import cython
from cython.cimports.weft.engine.frontend.node_factory import new_node
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.frontend.node_factory import watch_devices
from weft.engine.frontend.tensor_lifecycle import wrap_node

require(__name__, cython.compiled)


def copy_to(device, tensor: Tensor, op: Primitive):
    """A tensor's value on another device, without gradient edges: brought into row-major order where it is, then
    copied; `op` is the primitive that copies."""
    watch_devices()
    node: Node = value(tensor)
    for number in (node.device, device.number):
        node = new_node(op, (node,), None, node.shape, node.numel, node.dtype, None)
        node.device = number
    return wrap_node(node)
