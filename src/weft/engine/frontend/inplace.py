# cython: language_level=3
"""In-place operations: a tensor's region gets a new value, and its history moves on.

It takes a handle and the new value, makes PyTorch's checks, and replaces the storage's value, as a whole or in a
region. Nothing that was recorded changes: nodes that read or saved the old value keep it.
"""

import cython
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.core_hooks import put_op
from cython.cimports.weft.engine.frontend.meta import check_write, is_meta
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.frontend.recorder import cast, check_budget
from cython.cimports.weft.engine.frontend.resolve import edge_of, needs_grad, value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor, replace_node
from cython.cimports.weft.engine.frontend.views import (
    KIND_BITS,
    KIND_IN_FUNCTION,
    KIND_MULTIPLE_OUTPUTS,
    KIND_UNDER_INFERENCE,
    KIND_UNDER_NO_GRAD,
    logical_strides,
    share,
)
from cython.cimports.weft.engine.frontend.write_rollback import is_there, log_write
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import FAILED, PENDING, Node
from cython.cimports.weft.engine.ir.strides import contiguous_strides
from cython.cimports.weft.engine.ir.tape import current_tape, finish

import weft.engine.frontend.views as _views  # a module, as either may be imported first
from weft._build.compiled import require
from weft.engine.ir.strides import overlaps
from weft.errors import ArgumentTypeError, DTypeError, MutationError

require(__name__, cython.compiled)


@cython.ccall
def in_place(tensor: Tensor, new):
    """Give a tensor's region a new value (an op's result on it), with PyTorch's checks. Returns the tensor."""
    if not isinstance(new, Tensor):
        raise ArgumentTypeError(
            "in-place operation",
            expected="a tensor or a number",
            got="another type",
            fix="convert the operand with weft.tensor(...)",
        )
    result: Tensor = cython.cast(Tensor, new)
    if result._dtype is not tensor._dtype:
        if result._dtype.category > tensor._dtype.category:
            raise DTypeError(
                f"result type {core_hooks.type_name(result._dtype)} can't be cast to the desired output type "
                f"{core_hooks.type_name(tensor._dtype)}",
                expected=f"a result that {tensor._dtype.name} can hold",
                got=result._dtype.name,
                fix="use the out-of-place operation, or convert the tensor first",
            )
        result = cast(result, tensor._dtype)
    if result._shape != tensor._shape:
        raise core_hooks.in_place_shape(tensor, result)
    return mutate(tensor, result)


def memory_behind(tensor: Tensor, new: Tensor):
    """A handle of the storage of a view, where to write an element of `new` there is all that writing it to the view
    is: no gradient, mode or lens follows it. Else None."""
    if tensor.base is None or not is_plain_write(tensor, (new,)):
        return None
    return None if tensor._storage.foreign is not None else _views.handle_of_storage(tensor)


def is_plain_write(tensor: Tensor, operands: tuple) -> bool:
    """True if to write elements of a tensor's storage is all that an operation in place of it and these operands does:
    no gradient, mode or lens follows it, and no element is there twice."""
    mode: Mode = current_tape().mode
    storage: Storage = tensor._storage
    base: Tensor = tensor.base
    if storage is None or tensor.view_transform != 0 or (base is not None and base.view_transform):
        return False
    if not mode.is_untransformed() or mode.fiber is not None:
        return False
    if mode.inference or tensor.inference or tensor.counter is not None:
        return False
    if mode.grad:
        if needs_grad(tensor) or (base is not None and needs_grad(base)):
            return False
        for operand in operands:
            if isinstance(operand, Tensor) and needs_grad(cython.cast(Tensor, operand)):
                return False
    if storage.node.dtype is not tensor._dtype:
        return False
    return not overlaps(tensor._shape, logical_strides(tensor))


@cython.ccall
def mutate(tensor: Tensor, new: Tensor):
    """Give a tensor's region the value of `new` (same shape and dtype); gradients follow in grad mode."""
    mode: Mode = current_tape().mode
    if tensor.inference and not mode.inference:
        raise core_hooks.inference_update()
    grad: cython.bint = mode.grad and (
        needs_grad(new)
        or needs_grad(tensor)
        or (tensor.base is not None and needs_grad(tensor.base))
    )
    _check(tensor, mode, grad)
    if tensor.view_transform != 0 or (tensor.base is not None and tensor.base.view_transform != 0):
        core_hooks.write_through_view_transform(tensor, new)
        _retain_again(tensor)
        return tensor
    region = _region_of(tensor) if grad else None
    storage: Storage = share(tensor)
    old: Node = storage.node
    base: Tensor = tensor if tensor.base is None else tensor.base
    edge = base.edge
    if mode.contexts is not None or mode.fiber is not None:
        _tell_of_write(mode, tensor, new)
    if not _is_region_of(new, tensor):
        if storage.foreign is not None:
            core_hooks.write_through(tensor, new)
        else:
            _write(tensor, storage, value(new))
    _count_write(tensor, storage)
    if storage.undo is not None or storage.node.may_fail:
        log_write(storage, old, base if grad else None, edge)
    if grad:
        _move_edges(tensor, new, region)
    elif tensor.base is None:
        tensor.version_seen = storage.version
    _retain_again(tensor)
    check_budget()
    return tensor


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _check(tensor: Tensor, mode: Mode, grad: cython.bint) -> cython.int:
    """Errors: MutationError where several elements of a tensor are one place in memory; as `_check_mutation`."""
    if tensor.strides is not None and overlaps(tensor._shape, tensor.strides):
        raise MutationError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation.",
            expected="a tensor whose elements are distinct memory",
            got="an expanded or overlapping view",
            fix="call .clone() before the in-place operation",
        )
    if mode.grad:
        _check_mutation(tensor, grad)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _count_write(tensor: Tensor, storage: Storage) -> cython.void:
    """A new version of a storage, and of a handle that counts its own."""
    storage.version += 1
    if tensor.counter is not None:
        tensor.counter.version += 1
        storage.apart += 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def _tell_of_write(mode: Mode, tensor: Tensor, new: Tensor) -> cython.int:
    """Tell the contexts and the fiber around of a write into a tensor that has a storage."""
    if mode.contexts is not None and mode.contexts.note_write is not None:
        mode.contexts.note_write(tensor._storage, new)
    if mode.fiber is not None and mode.walk == 0:
        mode.fiber.check_write(tensor, tensor._storage.node.seq)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _retain_again(tensor: Tensor) -> cython.int:
    """A tensor that has been written, and its base, keep the gradients of their new values."""
    if tensor.retains:
        core_hooks.retain_again(tensor)
    if tensor.base is not None and tensor.base.retains:
        core_hooks.retain_again(tensor.base)
    return 0


@cython.cfunc
def _write(tensor: Tensor, storage: Storage, new: Node) -> cython.void:
    """Make `new` the value of a handle's region. What is on the device meta stays as it is."""
    if new.state == FAILED or storage.node.state == FAILED:
        check_write(storage.node, new)
        if is_meta(storage.node):
            return
    if (
        tensor.view_chain == ()
        and tensor.strides is None
        and tensor.offset == 0
        and tensor._shape == storage.node.shape
    ):
        replace_node(storage, new)
    else:
        _put_region(tensor, storage, new)


@cython.cfunc
def _is_region_of(new: Tensor, tensor: Tensor) -> cython.bint:
    """True if the new value views the very elements that are written: `e[i] += 1` ends with `e[i] = e[i]`."""
    if (
        new._storage is not tensor._storage
        or new.offset != tensor.offset
        or new.view_transform != 0
    ):
        return False
    if new._dtype is not tensor._dtype or new._shape != tensor._shape:
        return False
    return logical_strides(new) == logical_strides(tensor)


@cython.cfunc
def _put_region(tensor: Tensor, storage: Storage, new: Node) -> cython.void:
    root: Node = storage.node
    params = (tensor.offset, logical_strides(tensor))
    replace_node(
        storage, new_node(put_op, (root, new), params, root.shape, root.numel, root.dtype, None)
    )


@cython.cfunc
def _check_mutation(tensor: Tensor, grad: cython.bint) -> cython.void:
    if tensor.leaf_grad:
        raise MutationError(
            "a leaf Variable that requires grad is being used in an in-place operation.",
            expected="a tensor that is not a leaf, or an update under no_grad",
            got="a leaf with requires_grad=True",
            fix="wrap the update in `with weft.no_grad():`, or use the out-of-place operation",
        )
    kind: cython.int = tensor.creation & KIND_BITS
    if grad and kind == KIND_IN_FUNCTION:
        raise core_hooks.view_of_function(tensor)
    if tensor.base is None or not grad:
        return
    if kind in (KIND_UNDER_NO_GRAD, KIND_UNDER_INFERENCE):
        raise core_hooks.untracked_view(tensor)
    if kind == KIND_MULTIPLE_OUTPUTS:
        raise core_hooks.one_of_several_views(tensor)
    if tensor.base.leaf_grad:
        raise MutationError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            expected="a view of a tensor that is not a leaf, or an update under no_grad",
            got="a view of a leaf with requires_grad=True",
            fix="wrap the update in `with weft.no_grad():`",
        )


def check_in_place(tensor: Tensor):
    """Errors: MutationError where a tensor may not become a view of itself, for which the rules of writes hold."""
    mode: Mode = current_tape().mode
    if tensor.inference and not mode.inference:
        raise core_hooks.inference_update()
    if mode.grad:
        _check_mutation(
            tensor, needs_grad(tensor) or (tensor.base is not None and needs_grad(tensor.base))
        )


@cython.cfunc
def _region_of(tensor: Tensor):
    """The region of a view in its differentiable base, as (offset, strides); all of a tensor that has no base."""
    base: Tensor = tensor.base
    if base is None:
        return (0, contiguous_strides(tensor._shape))
    region = core_hooks.region(base._shape, tensor.view_chain[len(base.view_chain) :])
    if region is None:
        raise MutationError(
            "in-place operation on this view",
            expected="a view that is one strided region of its base",
            got="a reshape of a permuted view",
            fix="write through the base tensor instead",
        )
    return region


@cython.cfunc
def _move_edges(tensor: Tensor, new: Tensor, region) -> cython.void:
    """The new value's history becomes the tensor's; a view's goes into its base. What only overwrites keeps the old
    history behind a gradient of zeros, so that the tensor still requires one."""
    base: Tensor = tensor if tensor.base is None else tensor.base
    edge = edge_of(new)
    if tensor.base is not None or edge is None:
        node: Node = new_node(
            put_op,
            None,
            region,
            base._shape,
            count_elements(base._shape),
            base._dtype,
            (edge_of(base), edge),
        )
        node.operand_shapes = (base._shape, tensor._shape)
        finish(node)
        edge = node
    base.edge = edge
    base.version_seen = tensor._storage.version


def put_back(tensor: Tensor, node: Node):
    """Let a tensor that is all of its storage show an earlier value again; its version stays. Part of a storage keeps
    its value: the rest may belong to somebody else."""
    if tensor._storage is not None:
        if tensor.view_chain == () and tensor._storage.node.shape == node.shape:
            replace_node(tensor._storage, node)
        return
    node.external_refs += 1
    tensor.node.external_refs -= 1
    tensor.node = node


@cython.final
@cython.cclass
class WriteSnapshot:
    """The values that tensors show now, to go back to; they are kept while it `holds` them."""

    def __cinit__(self):
        self.tensors = []
        self.nodes = []
        self.holds = True

    def __dealloc__(self):
        self.let_go()

    @cython.ccall
    def let_go(self):
        """Keep the values no longer: what is computed may write over them."""
        node: Node
        if self.holds:
            self.holds = False
            for node in self.nodes or ():
                node.external_refs -= 1

    @cython.ccall
    def add(self, tensors):
        """Keep the values of the tensors among these."""
        node: Node
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                node = value(tensor)
                node.external_refs += 1
                self.nodes.append(node)
                self.tensors.append(tensor)

    @cython.ccall
    def forget_where_sure(self):
        """Keep the values no longer where none that the tensors show now may fail."""
        node: Node
        for tensor in self.tensors:
            node = value(tensor)
            if node.may_fail:
                return
        self.let_go()

    @cython.ccall
    def restore(self):
        """Let all of them show these values again, as far as they are there."""
        node: Node
        for index, tensor in enumerate(self.tensors):
            node = self.nodes[index]
            if self.holds or is_there(node):
                put_back(tensor, node)

    @cython.ccall
    def is_untouched(self):
        """True if all that the tensors show now is pending, so that nothing has been written over."""
        node: Node
        for tensor in self.tensors:
            node = value(tensor)
            if node.state != PENDING:
                return False
        return True
