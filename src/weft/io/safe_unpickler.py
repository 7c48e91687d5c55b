"""A safe unpickler: a machine for pickles that runs nothing of theirs, and calls only functions that it was given by
name.

It takes bytes, and the globals that they may name, and returns the value. A pickle is a program for a stack machine;
Python's own unpickler imports and calls whatever the program names. This one knows the instructions that plain data
needs, looks names up in a table, and refuses the first that is not there. It has its own stack, so depth is bounded by
memory.
"""

from __future__ import annotations

import math
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import weft
from weft.engine.frontend.tensor import Tensor
from weft.errors import CheckpointError
from weft.tensor.memory.host_memory import region

if TYPE_CHECKING:
    from weft.sparse.tensor import SparseTensor


Globals = Mapping[str, Any]
Persistent = Callable[[Any], Any]
PickleOptions = Mapping[
    str, Any
]  # what Python's own unpickler takes: encoding, errors, fix_imports
_MOST_NESTED = 16
_LARGEST = 1 << 62


class PickledError(CheckpointError, pickle.UnpicklingError):
    """A file that would run code while it is loaded, where only tensors and plain values were asked for."""


class Damaged(Exception):
    """The error for bytes that make no sense; the text says where."""


class KnownGlobal:
    """A global: what it stands for, how it is called (None: not at all), and whether it is the caller's own class,
    whose instances may be made and filled as Python would."""

    def __init__(self, value: Any, call: Callable[..., object] | None = None, own: bool = False):
        self.value, self.call, self.own = value, call, own


class _Mark:
    pass


_MARK = _Mark()


def refused(what: str) -> PickledError:
    """The error for a pickle that asks for more than data."""
    return PickledError(
        f"Weights only load failed: {what}, and loading that can run code",
        expected="a file of tensors and plain values",
        got=what,
        fix="save a state_dict(); or pass weights_only=False if you trust the file, or name what you trust with "
        "weft.serialization.add_safe_globals([...])",
    )


def plain_globals() -> dict[str, KnownGlobal]:
    """The globals of plain containers."""
    return {
        "collections.OrderedDict": KnownGlobal(OrderedDict, _ordered),
        "collections.Counter": KnownGlobal(dict, _ordered),
        "builtins.set": KnownGlobal(set, _as_set),
        "builtins.frozenset": KnownGlobal(frozenset, lambda parts=(): frozenset(_as_set(parts))),
        "builtins.bytearray": KnownGlobal(bytearray, _as_bytearray),
        "builtins.complex": KnownGlobal(
            complex, lambda real, imag=0.0: complex(float(real), float(imag))
        ),
        "_codecs.encode": KnownGlobal(_encoded, _encoded),
    }


def _ordered(parts: Any = ()) -> OrderedDict[Any, Any]:
    """An ordered dictionary of pairs."""
    made: OrderedDict[Any, Any] = OrderedDict()
    for key, value in parts.items() if isinstance(parts, dict) else parts:
        made[hashable(key)] = value
    return made


def _as_set(parts: Any = ()) -> set[Any]:
    return {hashable(part) for part in parts}


def _as_bytearray(content: object = b"", encoding: object = None) -> bytearray:
    if isinstance(content, str):
        content = _encoded(content, encoding)
    if not isinstance(content, bytes | bytearray):
        raise Damaged("a bytearray of something else than bytes")
    return bytearray(content)


def _encoded(text: object, encoding: object = "utf-8") -> bytes:
    """Bytes that an old protocol wrote as text."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise Damaged("bytes in an unknown encoding")
    return text.encode(encoding)


def hashable(key: object, depth: int = 0) -> Any:
    """A key of a dictionary. Nested ones are bounded: Python's hash of a tuple calls itself without end."""
    if isinstance(key, tuple | frozenset):
        if depth > _MOST_NESTED:
            raise Damaged("a key that is nested too deeply")
        for part in key:
            hashable(part, depth + 1)
    return key


def is_index(value: object) -> bool:
    """True if a value can count or place elements."""
    return type(value) is int and 0 <= value < _LARGEST


def region_within(whole: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """A strided region of a tensor in row-major memory. Errors: Damaged for one that reaches outside."""
    if len(strides) != len(shape) or len(shape) > 64:
        raise Damaged("a tensor whose strides do not fit its shape")
    if not all(map(is_index, (offset, *shape, *strides))) or math.prod(shape) >= _LARGEST:
        raise Damaged("a tensor with impossible sizes")
    if 0 in shape:
        return weft.empty(shape, dtype=whole.dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if offset + extent > whole.numel():
        raise Damaged(f"a tensor that reaches to element {offset + extent} of {whole.numel()}")
    return region(whole, tuple(shape), tuple(strides), offset)


def _short(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:120]


def read(
    content: BinaryIO, known: Mapping[str, KnownGlobal], persistent: Persistent | None = None
) -> Any:
    """The value of the next pickle of a file.

    Errors: PickledError that names the first global outside `known`; Damaged for anything that is no pickle.
    """
    machine = _Machine(known, persistent)
    try:
        for opcode, argument, position in pickletools.genops(content):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run(opcode.name, argument, position or 0)
    except (Damaged, CheckpointError):
        raise
    except RecursionError:
        raise Damaged("values that are nested too deeply") from None
    except Exception as error:  # a value that does not fit where the program puts it
        raise Damaged(f"a pickle that cannot be read ({_short(error)})") from None
    raise Damaged("a pickle without an end")


class _Machine:
    """The stack, the marks in it and the memory of one pickle."""

    def __init__(self, known: Mapping[str, KnownGlobal], persistent: Persistent | None) -> None:
        self.known, self.persistent = known, persistent
        self.callable = {
            id(entry.value): entry for entry in known.values() if entry.call or entry.own
        }
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.own: dict[
            int, Any
        ] = {}  # instances of the caller's classes, by id; kept, so that ids stay theirs

    def run(self, name: str, argument: int | str | None, position: int) -> None:
        """One instruction."""
        if name in _PUSHED:
            self.stack.append(argument)
        elif name in _FIXED:
            self.stack.append(_FIXED[name]())
        elif name in _IGNORED:
            return
        else:
            method = getattr(self, f"_{name.lower()}", None)
            if method is None:
                raise refused(f"the instruction {name} at byte {position}")
            method(argument)

    def pop(self) -> Any:
        """The value on top. Errors: Damaged if there is none."""
        if not self.stack or self.stack[-1] is _MARK:
            raise Damaged("a pickle that takes more than it gave")
        return self.stack.pop()

    def top(self) -> Any:
        """The value on top, which stays there."""
        if not self.stack or self.stack[-1] is _MARK:
            raise Damaged("a pickle that takes more than it gave")
        return self.stack[-1]

    def popped_to_mark(self) -> list[Any]:
        """The values above the last mark, taken off the stack."""
        place = len(self.stack)
        while place and self.stack[place - 1] is not _MARK:
            place -= 1
        if not place:
            raise Damaged("a pickle that misses a mark")
        found = self.stack[place:]
        del self.stack[place - 1 :]
        return found

    def _mark(self, _: object) -> None:
        self.stack.append(_MARK)

    def _pop(self, _: object) -> None:
        if not self.stack:
            raise Damaged("a pickle that takes more than it gave")
        self.stack.pop()

    def _pop_mark(self, _: object) -> None:
        self.popped_to_mark()

    def _dup(self, _: object) -> None:
        self.stack.append(self.top())

    # -- containers ------------------------------------------------------------------------------------------------

    def _tuple(self, _: object) -> None:
        self.stack.append(tuple(self.popped_to_mark()))

    def _tuple1(self, _: object) -> None:
        self.stack.append((self.pop(),))

    def _tuple2(self, _: object) -> None:
        second, first = self.pop(), self.pop()
        self.stack.append((first, second))

    def _tuple3(self, _: object) -> None:
        third, second, first = self.pop(), self.pop(), self.pop()
        self.stack.append((first, second, third))

    def _list(self, _: object) -> None:
        self.stack.append(self.popped_to_mark())

    def _append(self, _: object) -> None:
        value = self.pop()
        self._filled(list).append(value)

    def _appends(self, _: object) -> None:
        values = self.popped_to_mark()
        self._filled(list).extend(values)

    def _dict(self, _: object) -> None:
        values = self.popped_to_mark()
        self.stack.append({})
        self._set_items(values)

    def _setitem(self, _: object) -> None:
        value, key = self.pop(), self.pop()
        self._set_items([key, value])

    def _setitems(self, _: object) -> None:
        self._set_items(self.popped_to_mark())

    def _set_items(self, values: list[str | SparseTensor]) -> None:
        target = self._filled(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[hashable(key)] = value

    def _additems(self, _: object) -> None:
        values = self.popped_to_mark()
        self._filled(set).update(hashable(value) for value in values)

    def _frozenset(self, _: object) -> None:
        self.stack.append(frozenset(hashable(value) for value in self.popped_to_mark()))

    def _filled(self, kind: type) -> Any:
        """The container on top that is filled. Errors: Damaged for another kind of value."""
        target = self.top()
        if not isinstance(target, kind):
            raise Damaged(f"a {type(target).__name__} where a {kind.__name__} is filled")
        return target

    # -- memory ----------------------------------------------------------------------------------------------------

    def _put(self, place: int) -> None:
        self.memo[place] = self.top()

    _binput = _long_binput = _put

    def _memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.top()

    def _get(self, place: int) -> None:
        if place not in self.memo:
            raise Damaged(f"a pickle that asks for value {place}, which it never kept")
        self.stack.append(self.memo[place])

    _binget = _long_binget = _get

    # -- names and calls -------------------------------------------------------------------------------------------

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def _stack_global(self, _: object) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise Damaged("a global whose name is no text")
        self._name(module, name)

    def _name(self, module: str, name: str) -> None:
        module = {"__builtin__": "builtins"}.get(module, module)
        found = self.known.get(f"{module}.{name}")
        if found is None:
            raise refused(f"the file names {module}.{name}"[:300])
        self.stack.append(found.value)

    def _reduce(self, _: object) -> None:
        arguments, function = self.pop(), self.pop()
        known = self.callable.get(id(function))
        if known is None or known.call is None or not isinstance(arguments, tuple):
            raise Damaged("a call of something that is no function")
        made = known.call(*arguments)
        self._keep(known, made)
        self.stack.append(made)

    def _newobj(self, _: Any) -> None:
        arguments, given = self.pop(), self.pop()
        kind = self.callable.get(id(given))
        if kind is None or not isinstance(arguments, tuple):
            raise Damaged("an object of something that is no class")
        if kind.own:
            made = kind.value.__new__(kind.value, *arguments)
        elif kind.value in (OrderedDict, set, frozenset) and kind.call is not None:
            made = kind.call(*arguments)
        else:
            raise refused("an object of a class that is made by a function")
        self._keep(kind, made)
        self.stack.append(made)

    def _keep(self, kind: KnownGlobal, made: object) -> None:
        if kind.own:
            self.own[id(made)] = made

    def _build(self, _: object) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, OrderedDict) and isinstance(state, dict):
            if "_metadata" in state:  # what a module's state_dict carries
                target._metadata = state["_metadata"]  # type: ignore[attr-defined]
        elif id(target) in self.own:
            _fill(target, state)
        else:
            raise refused(f"the state of a {type(target).__name__}")

    def _binpersid(self, _: object) -> None:
        identity = self.pop()
        if self.persistent is None:
            raise Damaged("a reference to something outside the pickle")
        self.stack.append(self.persistent(identity))


def _fill(target: Tensor, state: dict[str, object]) -> None:
    """Give an instance of one of the caller's classes its state, as Python's pickle does."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


_PUSHED = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_IGNORED = {"PROTO", "FRAME"}
