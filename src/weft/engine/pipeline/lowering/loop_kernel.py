# cython: language_level=3
"""Specs of loop kernels: orders and collapses their axes, classifies strides, encodes instructions.

A kernel is specialised on structure, dtypes, ranks and stride classes, which are its key; sizes and strides become
arguments. It is described in words, by which its spec is found; only words without a spec become the key that is
named, printed and compiled (`spec_table`). The device schedules, launches and writes the kernel.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, extend, put, reserve
from cython.cimports.weft.engine.devices.api import Device, Lowerer
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec, Lowering
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import (
    BODY,
    EPILOGUE,
    LOAD,
    OFFSET,
    PART,
    REDUCED,
    REGION,
    KernelEncoder,
    collapse,
    new_encoder,
)
from cython.cimports.weft.engine.pipeline.lowering.spec_table import look_up, remember
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.kernels.reduction_order import BLOCK
from weft.engine.pipeline.lowering.kernel_encoder import REAL
from weft.engine.pipeline.lowering.spec_table import spec_of
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_KINDS = {"amax": "max", "amin": "min"}
_NAMES = {LOAD: "load", OFFSET: "offset"}
_TYPES = {dtype.code: dtype.name for dtype in dtypes.ALL}
_PARTS = {BODY: "b", REDUCED: "r", EPILOGUE: "e"}
_block = cython.declare(cython.longlong, BLOCK)
_real = cython.declare(cython.int, REAL)
_LOW = cython.declare(cython.longlong, (1 << 32) - 1)
_IN_WORD = cython.declare(cython.Py_ssize_t, 40)  # classes of axes that one word of a key holds


# -- specs ---------------------------------------------------------------------------------------------------------


def prepare(program: Program, kernel: Kernel):
    """Work out the spec of an elementwise and reduce kernel; None where it has nothing to do."""
    kernel.prepared = None
    if not kernel.stores:
        return None
    encoder: KernelEncoder = new_encoder(program, kernel)
    axis: cython.Py_ssize_t
    for axis in range(encoder.rank - encoder.reduced):
        if encoder.dims.words[axis] == 0:
            return None
    node: Node
    for node in kernel.nodes:
        encoder.add(node)
    for node in kernel.stores:
        encoder.store(node)
    collapse([encoder])
    encoder.spec = find_spec(encoder)
    encoder.kernel = encoder.program = None  # no cycles: nodes would be kept until a collection
    kernel.prepared = encoder
    return encoder.spec


def prepared_spec(kernel: Kernel):
    """The spec of a prepared kernel."""
    encoder: KernelEncoder = kernel.prepared
    return encoder.spec


def prepared_key(kernel: Kernel):
    """The named key of a prepared kernel."""
    encoder: KernelEncoder = kernel.prepared
    return _whole_key(encoder)


@cython.cfunc
def _whole_key(encoder: KernelEncoder) -> tuple:
    """The named key of a kernel: what it computes, and how its device runs it."""
    return (*loop_key(encoder), encoder.schedule)


@cython.cfunc
def copy_loop(
    device: Device, dtype: DType, shape: tuple, source: tuple, target: tuple
) -> KernelEncoder:
    """The loops of a copy between regions of one shape, by their strides."""
    encoder: KernelEncoder = KernelEncoder.__new__(KernelEncoder)
    encoder.device = device
    encoder.start(shape, None)
    code: cython.int = dtype.code
    at = encoder.region(cython.address(encoder.operands), code, _real, 0, False)
    encoder.body_steps(at, shape, source)
    value: cython.longlong = encoder.code(False, LOAD, code, 0, 0)
    at = encoder.region(cython.address(encoder.stores), code, _real, value, False)
    encoder.body_steps(at, shape, target)
    collapse([encoder])
    return encoder


@cython.cfunc
def find_spec(encoder: KernelEncoder) -> KernelSpec:
    """The spec of a kernel whose axes have been collapsed."""
    key: Array = empty()
    lowerer: Lowerer = encoder.device.lowerer()
    encoder.schedule = lowerer.schedule(encoder)
    try:
        put(cython.address(key), encoder.device.number)
        put_key(encoder, cython.address(key))
        put(cython.address(key), encoder.schedule)
        spec = look_up(cython.address(key))
        if spec is None:
            spec = _spec_of(encoder, _whole_key(encoder))
            remember(cython.address(key), spec)
    finally:
        drop(cython.address(key))
    return spec


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_key(encoder: KernelEncoder, key: cython.pointer(Array)) -> cython.int:
    """Append the words that a kernel, or a phase of one, is specialised on."""
    number: cython.Py_ssize_t
    put(key, encoder.rank)
    put(key, encoder.reduced)
    put(key, encoder.operands.count)
    put(key, encoder.body.count)
    put(key, encoder.reduces.count)
    put(key, encoder.epilogue.count)
    put(key, encoder.stores.count)
    for number in range(encoder.operands.count // REGION):
        put_classes(encoder, cython.address(encoder.operands), number, key)
    extend(key, cython.address(encoder.body))
    extend(key, cython.address(encoder.reduces))
    extend(key, cython.address(encoder.epilogue))
    for number in range(encoder.stores.count // REGION):
        put_classes(encoder, cython.address(encoder.stores), number, key)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_classes(
    encoder: KernelEncoder,
    regions: cython.pointer(Array),
    number: cython.Py_ssize_t,
    key: cython.pointer(Array),
) -> cython.int:
    """Append what a kernel is specialised on of an operand or a store: the strides by their class."""
    region: cython.p_longlong = regions.words + REGION * number
    steps: cython.p_longlong = encoder.steps.words + region[2]
    word: cython.longlong = 0
    axis: cython.Py_ssize_t
    put(key, region[0] | region[1] * 65536 | region[4] * 256)  # some are below 0: no shifts
    put(key, region[3])
    for axis in range(encoder.rank):
        if axis > 0 and axis % _IN_WORD == 0:
            put(key, word)
            word = 0
        word = 3 * word + _class_of(steps[axis])
    return put(key, word)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _class_of(stride: cython.longlong) -> cython.Py_ssize_t:
    return stride if 0 <= stride <= 1 else 2


@cython.cfunc
def region_key(
    encoder: KernelEncoder, regions: cython.pointer(Array), number: cython.Py_ssize_t
) -> tuple:
    """The part of an operand that belongs to a named key: the name of its dtype, the stride class of each axis, its
    kind."""
    region: cython.p_longlong = regions.words + REGION * number
    steps: cython.p_longlong = encoder.steps.words + region[2]
    text = "".join(["01s"[_class_of(steps[axis])] for axis in range(encoder.rank)])
    return _TYPES[region[0]], text, region[1]


@cython.cfunc
def loop_key(encoder: KernelEncoder) -> tuple:
    """The key of a kernel, or of a phase of one, as it is named and compiled."""
    names: dict = {op.code: op.name for op in OPS.values()} | _NAMES
    number: cython.Py_ssize_t
    reduces: list = []
    stores: list = []
    words: cython.p_longlong = encoder.reduces.words
    for number in range(encoder.reduces.count // 3):
        name = names[words[3 * number]]
        value = _value_of(words[3 * number + 1])
        reduces.append((_KINDS.get(name, name), value, _TYPES[words[3 * number + 2]]))
    words = encoder.stores.words
    for number in range(encoder.stores.count // REGION):
        dtype, text, kind = region_key(encoder, cython.address(encoder.stores), number)
        value = _value_of(words[REGION * number + 3])
        stores.append((dtype, value, text, words[REGION * number + 4] != 0, kind))
    return (
        "loop",
        encoder.rank,
        encoder.reduced,
        tuple(
            [
                region_key(encoder, cython.address(encoder.operands), number)
                for number in range(encoder.operands.count // REGION)
            ]
        ),
        _instructions(cython.address(encoder.body), names),
        tuple(reduces),
        _instructions(cython.address(encoder.epilogue), names),
        tuple(stores),
    )


@cython.cfunc
def _instructions(code: cython.pointer(Array), names: dict) -> tuple:
    """Instructions as (what, dtype name, arguments, operand)."""
    found: list = []
    words: cython.p_longlong
    place: cython.Py_ssize_t = 0
    while place < code.count:
        words = code.words + place
        arguments = tuple([_value_of(words[4 + index]) for index in range(words[3])])
        found.append((names[words[0]], _TYPES[words[1]], arguments, words[2]))
        place += 4 + words[3]
    return tuple(found)


def _value_of(value: cython.longlong):
    return _PARTS[value >> PART], value & _LOW


# -- launches ------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_pointers(
    lowering: Lowering, encoder: KernelEncoder, pointers: cython.pointer(Array)
) -> cython.int:
    """Append the slots and byte offsets of a kernel's operands and stores."""
    memref: MemRef
    node: Node
    reserve(pointers, 2 * (len(encoder.sources) + len(encoder.targets)) + 2)
    for memref in encoder.sources:
        put(pointers, memref.value.slot)
        put(pointers, memref.offset * memref.root.dtype.itemsize)
    for node in encoder.targets:
        put(pointers, value_of(lowering.plan, node).slot)
        put(pointers, 0)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_arguments(encoder: KernelEncoder, arguments: cython.pointer(Array)) -> cython.int:
    """Append the steps of every operand, then of every store."""
    put_steps(encoder, cython.address(encoder.operands), arguments)
    return put_steps(encoder, cython.address(encoder.stores), arguments)


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_steps(
    encoder: KernelEncoder, regions: cython.pointer(Array), arguments: cython.pointer(Array)
) -> cython.int:
    place: cython.Py_ssize_t = 0
    axis: cython.Py_ssize_t
    while place < regions.count:
        for axis in range(encoder.rank):
            put(arguments, encoder.steps.words[regions.words[place + 2] + axis])
        place += REGION
    return 0


def _spec_of(encoder: KernelEncoder, key: tuple):
    """The spec of a key."""
    body, reduces, epilogue = key[4:7]
    names = [item[0] for item in (*body, *reduces, *epilogue) if item[0] not in ("load", "offset")]
    lowerer: Lowerer = encoder.device.lowerer()
    spec: KernelSpec = spec_of(encoder.device, key, names, lowerer.ends(encoder))
    spec.fused = len(names) > 1
    return spec
