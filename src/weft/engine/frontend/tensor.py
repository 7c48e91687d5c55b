# cython: language_level=3
"""Tensor handles and storages.

A Tensor is a handle: a value (its own node, or a strided region of a Storage that it shares), a gradient edge, a
gradient. This module has the operators of the class; they call `recorder`, `inplace` and `views`, which know the
class. The layers above install all other methods (`install_methods`).
"""

import cython
from cython.cimports.cpython.buffer import PyObject_GetBuffer
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.weft.engine.devices.api import several
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.core_hooks import (
    abs_op,
    add_op,
    bitwise_and_op,
    bitwise_left_shift_op,
    bitwise_or_op,
    bitwise_right_shift_op,
    bitwise_xor_op,
    div_op,
    eq_op,
    floor_divide_op,
    ge_op,
    gt_op,
    le_op,
    lt_op,
    mul_op,
    ne_op,
    remainder_op,
    rsub_op,
    sub_op,
)
from cython.cimports.weft.engine.dispatch.torch_function import answers, answers_within
from cython.cimports.weft.engine.frontend.inplace import in_place
from cython.cimports.weft.engine.frontend.meta import number_of_device, shows_meta
from cython.cimports.weft.engine.frontend.recorder import binary, record_elementwise
from cython.cimports.weft.engine.frontend.resolve import edge_now, function_of, needs_grad
from cython.cimports.weft.engine.frontend.tensor_lifecycle import watch
from cython.cimports.weft.engine.frontend.views import (
    KIND_BITS,
    KIND_MULTIPLE_OUTPUTS,
    alias_of,
)
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residuals import mark_dead_candidate
from cython.cimports.weft.engine.ir.tape import ambient

from weft._build.compiled import require
from weft.engine.capi.type_slots import (
    add_to_type,
    allow_dict,
    open_type,
    show_under,
    take_no_concatenation,
)
from weft.errors import ArgumentTypeError

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class VersionCounter:
    """A version of its own, for `.data` aliases."""


@cython.final
@cython.cclass
class UndoEntry:
    """The entry of a storage in the undo log, before writes that may fail: `entries` are (node, the base of the handle
    that wrote, the position of the base's history), `kept` is a handle of the value to revert to. `storage` is NULL
    once the entry is discarded or the storage is gone."""


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class Storage:
    """A mutable cell: the current value in memory order (a row-major node) and the version counter. Aliases point to
    it; it points to nobody. `apart` is how many of its versions were made by handles that count their own (`.data`),
    `foreign` the buffer that others can write, or None; `undo` what it goes back to where a write fails; `home` a
    node in the memory whose address has been given out, or None; `shown` the object of bytes that stands for it."""

    def __dealloc__(self):
        if self.undo is not None:
            self.undo.storage = cython.NULL
        if self.node is not None:
            _let_go(self.node)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _let_go(node: Node) -> cython.void:
    """A handle no longer shows a value. Where a walk has been and records still hold the node, its memory can go."""
    node.external_refs -= 1
    if (
        node.external_refs == 0
        and node.released
        and Py_REFCNT(cython.cast(cython.pointer(PyObject), node)) > 1
    ):
        mark_dead_candidate(node)


@cython.ccall
def replace_node(storage: Storage, node: Node) -> cython.void:
    """Make `node` the current value of a storage; versions are the caller's business."""
    node.external_refs += 1
    if storage.node is not None:
        _let_go(storage.node)
    storage.node = node


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_bool(other) -> cython.bint:
    """True if the other operand of a subtraction is a bool, which subtraction does not take."""
    if isinstance(other, Tensor):
        return cython.cast(Tensor, other)._dtype.category == 0
    return type(other) is bool


@cython.cfunc
@cython.exceptval(check=False)
def _has_no_history(tensor: Tensor) -> cython.bint:
    """True of a view that was made in another mode and whose base has changed since. Nobody may ask for what led to it;
    that a gradient flows to its base can be told."""
    return (
        tensor.base is not None
        and tensor.version_seen != tensor._storage.version
        and tensor.creation & KIND_BITS not in (0, KIND_MULTIPLE_OUTPUTS)
    )


@cython.cfunc
@cython.inline
def _asked(name: str, tensor: Tensor, other):
    """The answer of the other operand's type to an in-place operator; NotImplemented if the type has none."""
    if not answers(cython.cast(cython.pointer(PyObject), other)):
        return NotImplemented
    return core_hooks.ask_others(name, (tensor, other))


@cython.cfunc
@cython.inline
def _updated(name: str, op: Primitive, tensor: Tensor, other):
    """The tensor with the value of a binary operation, or what the other operand's type answers instead."""
    made = _asked(name, tensor, other)
    return _written(tensor, binary(op, tensor, other)) if made is NotImplemented else made


@cython.cfunc
@cython.inline
def _written(tensor: Tensor, new):
    """The tensor with a new value; NotImplemented, for Python to ask the other operand, where there is none."""
    return NotImplemented if new is NotImplemented else in_place(tensor, new)


@cython.cclass
class Tensor:
    """A multi-dimensional array of one element type that remembers how it was computed.

    Args:
        *arguments: sizes, `Tensor(2, 3)`, or data, `Tensor([1.0, 2.0])`: `weft.empty` and `weft.tensor` say which.
        **keywords: `device`, where it lies.
    """

    __array_priority__ = 1000

    def __init__(self, *arguments, **keywords):
        if type(self) is Tensor or arguments or keywords:
            core_hooks.construct(self, *arguments, **keywords)

    def __dealloc__(self):
        if self.node is not None:
            _let_go(self.node)
        if self.attributes != cython.NULL:
            Py_DECREF(cython.cast(object, self.attributes))

    # -- what a handle is ------------------------------------------------------------------------------------------

    @property
    def shape(self):
        return core_hooks.size(self._shape)

    @property
    def dtype(self):
        return self._dtype

    @property
    def ndim(self):
        return len(self._shape)

    @property
    def device(self):
        if shows_meta(self):
            return core_hooks.meta_device
        return core_hooks.device_at(number_of_device(self)) if several else core_hooks.device

    @property
    def is_leaf(self):
        return self.leaf_grad or edge_now(self) is None

    @property
    def requires_grad(self):
        return needs_grad(self.base if _has_no_history(self) else self)

    @requires_grad.setter
    def requires_grad(self, flag):
        core_hooks.set_requires_grad(self, flag)

    @property
    def grad_fn(self):
        return None if self.leaf_grad else function_of(edge_now(self))

    @property
    def grad(self):
        usual = self._grad is not None or self.leaf_grad or self.retains
        if not usual and not _has_no_history(self) and needs_grad(self):
            core_hooks.warn_non_leaf_grad()
        return self._grad

    @grad.setter
    def grad(self, gradient):
        core_hooks.set_grad(self, gradient)

    @grad.deleter
    def grad(self):
        self._grad = None

    @property
    def _version(self):
        if self.inference:
            raise core_hooks.inference_version()
        if self.counter is not None:
            return self.counter.version
        return 0 if self._storage is None else self._storage.version - self._storage.apart

    @property
    def _base(self):
        return self.base

    @property
    def data(self):
        alias: Tensor = alias_of(self if ambient == 0 else core_hooks.without_tangents(self))
        alias.counter = VersionCounter()
        return alias

    @data.setter
    def data(self, other):
        core_hooks.set_data(self, other)

    def detach(self):
        """The same value without its history; shares storage and version. A dual loses its tangent, by a copy."""
        alias: Tensor = alias_of(self if ambient == 0 else core_hooks.without_tangents(self))
        alias.counter = self.counter
        if self.edge is not None:
            watch(alias)  # a hook on the record that both have may hold it
        return alias

    def __hash__(self):
        return id(self)

    # -- operators -------------------------------------------------------------------------------------------------

    def __add__(self, other):
        return binary(add_op, self, other)

    def __radd__(self, other):
        return binary(add_op, other, self)

    def __sub__(self, other):
        if self._dtype.category == 0 or _is_bool(other):
            core_hooks.check_subtraction(self, other)
        return binary(sub_op, self, other)

    def __rsub__(self, other):
        if self._dtype.category == 0 or _is_bool(other):
            core_hooks.check_subtraction(other, self)
        return binary(rsub_op, other, self)

    def __mul__(self, other):
        return binary(mul_op, self, other)

    def __rmul__(self, other):
        return binary(mul_op, other, self)

    def __truediv__(self, other):
        return binary(div_op, self, other)

    def __rtruediv__(self, other):
        return binary(div_op, other, self)

    def __floordiv__(self, other):
        if self._dtype.category < 2:
            core_hooks.check_divisor(self, other)
        return binary(floor_divide_op, self, other)

    def __rfloordiv__(self, other):
        if self._dtype.category < 2:
            core_hooks.check_divisor(other, self)
        return binary(floor_divide_op, other, self)

    def __mod__(self, other):
        if self._dtype.category < 2:
            core_hooks.check_divisor(self, other)
        return binary(remainder_op, self, other)

    def __rmod__(self, other):
        if self._dtype.category < 2:
            core_hooks.check_divisor(other, self)
        return binary(remainder_op, other, self)

    def __pow__(self, other, modulo):
        made = core_hooks.pow(self, other)
        return core_hooks.ask_operand("pow", self, other) if made is NotImplemented else made

    def __rpow__(self, other, modulo):
        made = core_hooks.pow(other, self)
        return core_hooks.ask_operand("pow", other, self) if made is NotImplemented else made

    def __matmul__(self, other):
        made = core_hooks.matmul(self, other)
        return core_hooks.ask_operand("matmul", self, other) if made is NotImplemented else made

    def __rmatmul__(self, other):
        made = core_hooks.matmul(other, self)
        return core_hooks.ask_operand("matmul", other, self) if made is NotImplemented else made

    def __and__(self, other):
        return binary(bitwise_and_op, self, other)

    def __rand__(self, other):
        return binary(bitwise_and_op, other, self)

    def __or__(self, other):
        return binary(bitwise_or_op, self, other)

    def __ror__(self, other):
        return binary(bitwise_or_op, other, self)

    def __xor__(self, other):
        return binary(bitwise_xor_op, self, other)

    def __rxor__(self, other):
        return binary(bitwise_xor_op, other, self)

    def __lshift__(self, other):
        return binary(bitwise_left_shift_op, self, other)

    def __rshift__(self, other):
        return binary(bitwise_right_shift_op, self, other)

    def __rlshift__(self, other):
        return binary(bitwise_left_shift_op, other, self)

    def __rrshift__(self, other):
        return binary(bitwise_right_shift_op, other, self)

    def __neg__(self):
        return core_hooks.neg(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return record_elementwise(abs_op, (self,), None)

    def __invert__(self):
        return core_hooks.invert(self)

    def __eq__(self, other):
        return binary(eq_op, self, other)

    def __ne__(self, other):
        return binary(ne_op, self, other)

    def __lt__(self, other):
        return binary(lt_op, self, other)

    def __le__(self, other):
        return binary(le_op, self, other)

    def __gt__(self, other):
        return binary(gt_op, self, other)

    def __ge__(self, other):
        return binary(ge_op, self, other)

    def __iadd__(self, other):
        return _updated("__iadd__", add_op, self, other)

    def __isub__(self, other):
        made = _asked("__isub__", self, other)
        if made is not NotImplemented:
            return made
        if self._dtype.category == 0 or _is_bool(other):
            core_hooks.check_subtraction(self, other)
        return _written(self, binary(sub_op, self, other))

    def __imul__(self, other):
        return _updated("__imul__", mul_op, self, other)

    def __itruediv__(self, other):
        return _updated("__itruediv__", div_op, self, other)

    def __ifloordiv__(self, other):
        made = _asked("__ifloordiv__", self, other)
        if made is not NotImplemented:
            return made
        if self._dtype.category < 2:
            core_hooks.check_divisor(self, other)
        return _written(self, binary(floor_divide_op, self, other))

    def __imod__(self, other):
        made = _asked("__imod__", self, other)
        if made is not NotImplemented:
            return made
        if self._dtype.category < 2:
            core_hooks.check_divisor(self, other)
        return _written(self, binary(remainder_op, self, other))

    def __ipow__(self, other):
        made = _asked("__ipow__", self, other)
        if made is not NotImplemented:
            return made
        return _written(self, core_hooks.pow(self, other))

    def __iand__(self, other):
        return _updated("__iand__", bitwise_and_op, self, other)

    def __ior__(self, other):
        return _updated("__ior__", bitwise_or_op, self, other)

    def __ilshift__(self, other):
        return _updated("__ilshift__", bitwise_left_shift_op, self, other)

    def __irshift__(self, other):
        return _updated("__irshift__", bitwise_right_shift_op, self, other)

    def __ixor__(self, other):
        return _updated("__ixor__", bitwise_xor_op, self, other)

    # -- special methods whose meaning lies above ------------------------------------------------------------------

    def __getitem__(self, index):
        if answers_within(index):
            made = core_hooks.ask_others("__getitem__", (self, index))
            if made is not NotImplemented:
                return made
        return core_hooks.getitem(self, index)

    def __setitem__(self, index, new):
        asked: cython.bint = answers_within(index)
        asked = asked or answers(cython.cast(cython.pointer(PyObject), new))
        args: tuple = (self, index, new)
        if asked and core_hooks.ask_others("__setitem__", args) is not NotImplemented:
            return
        core_hooks.setitem(self, index, new)

    def __delitem__(self, index):
        raise ArgumentTypeError(
            "Tensor does not support deleting items",
            expected="a tensor of the remaining elements, made anew",
            got=f"del tensor[{index!r:.60}]",
            fix="index what is to stay: x[mask], or weft.cat([x[:i], x[i + 1:]])",
        )

    def __len__(self):
        if not self._shape:
            raise ArgumentTypeError(
                "len() of a 0-d tensor",
                expected="at least one dimension",
                got="a tensor of shape []",
                fix="use .item(), or unsqueeze(0) first",
            )
        return self._shape[0]

    def __iter__(self):
        return core_hooks.iterate(self)

    def __contains__(self, element):
        return core_hooks.contains(self, element)

    def __bool__(self):
        return core_hooks.truth(self)

    def __float__(self):
        return float(core_hooks.number(self))

    def __int__(self):
        return int(core_hooks.number(self))

    def __complex__(self):
        return complex(core_hooks.number(self))

    def __index__(self):
        return core_hooks.index(self)

    def __repr__(self):
        return core_hooks.repr_text(self)

    def __format__(self, spec):
        return core_hooks.format_text(self, spec)

    def __array__(self, dtype=None, copy=None):
        return core_hooks.array(self, dtype)

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        array = core_hooks.buffer(self)
        Py_DECREF(None)  # which Cython has put into the buffer
        PyObject_GetBuffer(array, buffer, flags)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return core_hooks.array_wrap(array)

    def __deepcopy__(self, memo):
        return core_hooks.deepcopy(self, memo)

    def __reduce_ex__(self, protocol):
        return core_hooks.reduce(self, protocol)

    def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
        return core_hooks.dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self):
        return (1, 0)


def install_methods(methods):
    """Add methods and properties to Tensor: the functions of the layers above, under PyTorch's names."""
    add_to_type(Tensor, methods)


def _allow_attributes():
    """Let users set attributes on tensors; the dict is made by the first one (Cython's own would be made each time)."""
    probe: Tensor = Tensor.__new__(Tensor)
    start: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, probe))
    place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, cython.address(probe.attributes))
    allow_dict(Tensor, place - start)


def _init_subclass(cls, **options):
    """A class of tensors is made."""
    super(Tensor, cls).__init_subclass__(**options)
    take_no_concatenation(cls)


_allow_attributes()
add_to_type(Tensor, {"__init_subclass__": classmethod(_init_subclass)})
show_under(Tensor, b"weft.Tensor")
open_type(Tensor)  # packages give it methods of their own
