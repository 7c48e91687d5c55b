# cython: language_level=3
"""Values on PyTorch's device "meta": they have a shape, a dtype and a history, and never memory.

The node of such a value has failed from the start, with the error that a read raises; one error object stands for the
device, so that the library's other failures are told from it. A value computed from one is on meta, too:
`node_factory` hands the error on as operations are recorded, and keeps them off the tape, so that none is ever
scheduled.
"""

import cython
from cython.cimports.weft.engine.frontend.meta import is_meta
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.errors import DeviceError, NoDataError

require(__name__, cython.compiled)

no_data = NoDataError()
any_on_meta = False


@cython.cfunc
@cython.exceptval(check=False)
def shows_meta(tensor: Tensor) -> cython.bint:
    """True if a handle's value is on the device meta."""
    if tensor.node is not None:
        return is_meta(tensor.node)
    return tensor._storage is not None and is_meta(tensor._storage.node)


@cython.cfunc
def note_meta() -> cython.void:
    """There is a value on the device meta: from now on operands are looked at."""
    global any_on_meta
    any_on_meta = True


@cython.cfunc
def on_two_devices(expects_cpu: cython.bint) -> object:
    """The error of operands that are on the CPU and on meta; the first one says where the others should be."""
    wanted, got = ("cpu", "meta") if expects_cpu else ("meta", "cpu")
    return DeviceError(
        f"Tensor on device {got} is not on the expected device {wanted}!",
        expected=f"all operands on {wanted}, where the first one is",
        got=f"one on {got}",
        fix='weft.empty_like(x, device="meta") stands for x on meta; nothing on meta has values to compute with',
    )


@cython.cfunc
@cython.exceptval(check=False)
def number_of_device(tensor: Tensor) -> cython.int:
    """The number of the device that a handle's value is on."""
    if tensor.node is not None:
        return tensor.node.device
    return (
        0
        if tensor._storage is None or tensor._storage.node is None
        else tensor._storage.node.device
    )


def is_on_meta(tensor: Tensor):
    """`shows_meta` for interpreted callers."""
    return shows_meta(tensor)


def no_data_here():
    """The error of wanting a value that is on the device meta, at the user's line."""
    return no_data.again()


@cython.cfunc
def check_write(old: Node, new: Node) -> cython.void:
    """Errors: NoDataError where a value without memory is to be written into one that has some."""
    if is_meta(new) and not is_meta(old):
        raise no_data.again()
