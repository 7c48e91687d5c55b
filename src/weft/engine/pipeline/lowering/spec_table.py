# cython: language_level=3
"""The table of kernel specs, by the words that describe them and by the names of their keys.

Words are quick to write and to look up: a kernel that has come before is found by them. The key, which is named,
printed and compiled, is made only for new words; a spec keeps it as text. The number of remembered words is bounded,
because programs that change at every step would describe new kernels for ever; a spec lives while its words are
remembered, or while a cached or running program holds it, and its machine code lives as long as the spec. So one name
is always one spec.
"""

import hashlib
from functools import partial
from weakref import WeakValueDictionary

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.weft.engine.capi.growable_array import Array
from cython.cimports.weft.engine.capi.lru_table import LruTable
from cython.cimports.weft.engine.devices.api import Device
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec

from weft._build.compiled import require

require(__name__, cython.compiled)

KERNELS = 8192
_by_words = cython.declare(LruTable, LruTable(KERNELS))
_by_name: WeakValueDictionary = WeakValueDictionary()
by_words = _by_words


@cython.cfunc
def look_up(words: cython.pointer(Array)) -> KernelSpec:
    """The spec that is known by these words, or None."""
    return _by_words.get(_bytes_of(words))


@cython.cfunc
def remember(words: cython.pointer(Array), spec: KernelSpec) -> cython.void:
    """Let a spec be found by these words."""
    _by_words.put(_bytes_of(words), spec)


@cython.cfunc
def _bytes_of(words: cython.pointer(Array)) -> bytes:
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, words.words), 8 * words.count)


def spec_of(device: Device, key, operations, ending=False, checked=False):
    """The spec of a key, whose first item says what kind of kernel it is. `ending`: it has a second function, which
    runs when the first one has run for all units."""
    text = repr(key)
    name = symbol_of(text, operations)
    if device.number > 0:
        name = f"{device.name}_{name}"
    spec: KernelSpec = _by_name.get(name)
    if spec is None:
        symbols = (name, name + "_final") if ending else (name,)
        spec = KernelSpec(name, partial(_written, device, text), symbols, checked)
        spec.key_text = text
        _by_name[name] = spec
    return spec


def symbol_of(text, operations) -> str:
    """A name for the kernel of a key: readable, and the same in every process."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{'_'.join(operations)[:40] or 'copy'}_{digest}"


def _written(device: Device, text, symbol):
    """The source of a kernel; its loop IR is built only now."""
    return device.lowerer().emit(_parsed(text), symbol)


def _parsed(text):
    from ast import literal_eval  # needed by what compiles only

    return literal_eval(text)


def kernel_specs():
    """The loop kernels that are known, by name."""
    return _by_name


def key_of(spec: KernelSpec):
    """The key of a loop kernel; None for a kernel of another family."""
    return None if spec.key_text is None else _parsed(spec.key_text)
