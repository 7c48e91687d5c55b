"""The object file reader: ELF64, little-endian, and on macOS 64-bit Mach-O, as LLVM writes them for kernels.

`read(code)` gives an ELF64 object's sections, symbols and relocations; `undefined_symbols` gives the names that code
of either kind expects from elsewhere. `jit` decides what may be linked, `linking` where it goes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

UNDEFINED = 0  # the section number of a symbol that others define
_SYMBOL_TABLE, _RELOCATIONS, _NO_BYTES = 2, 4, 8  # kinds of sections
_SECTION = struct.Struct(
    "<IIQQQQIIQQ"
)  # name kind flags address offset size link info alignment entry
_SYMBOL = struct.Struct("<IBBHQQ")  # name info other section value size
_RELOCATION = struct.Struct("<QIIq")  # offset kind symbol addend
_MACH_O, _MACH_O_SYMBOLS, _MACH_O_SECTION_BITS = b"\xcf\xfa\xed\xfe", 2, 0x0E
_FAMILIES = {"x86_64": 62, "aarch64": 183}  # processor family -> its number in ELF
_MACH_O_FAMILIES = {"x86_64": 0x01000007, "arm64": 0x0100000C}
_MACH_O_SYMBOL = struct.Struct("<IBBHQ")  # name type section other value


class Section(NamedTuple):
    """A section: `size` bytes of the file from `offset`; `link` and `info` are numbers of other sections."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    """A name for the place `value` bytes into a section."""

    name: str
    section: int
    value: int


class Relocation(NamedTuple):
    """A place in a section that wants to be told an address: that of a symbol (a number), and `addend`."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """The content of an object file; `machine` is ELF's number of the processor family."""

    code: bytes
    machine: int
    sections: list[Section]
    symbols: list[Symbol]
    relocations: list[Relocation]


def read(code: bytes) -> ObjectFile | None:
    """The contents of an ELF64 object; None where it is not one, or not sound."""
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < 64:
        return None
    try:
        return _read(code)
    except (struct.error, IndexError, ValueError):
        return None


def _read(code: bytes) -> ObjectFile:
    (machine,) = struct.unpack_from("<H", code, 18)
    (table,) = struct.unpack_from("<Q", code, 40)
    entry_size, count = struct.unpack_from("<HH", code, 58)
    sections: list[Section] = []
    symbols: list[Symbol] = []
    relocations: list[Relocation] = []
    for index in range(count):
        _, kind, flags, _, offset, size, link, info, alignment, _ = _SECTION.unpack_from(
            code, table + index * entry_size
        )
        if kind != _NO_BYTES and offset + size > len(code):
            raise ValueError("a section behind the end of the file")
        sections.append(Section(kind, flags, offset, size, link, info, alignment))
    for section in sections:
        content = code[section.offset : section.offset + section.size]
        if section.kind == _SYMBOL_TABLE:
            symbols += _symbols(code, content, sections[section.link].offset)
        elif section.kind == _RELOCATIONS:
            entries = _RELOCATION.iter_unpack(content)
            relocations += [
                Relocation(section.info, offset, kind, symbol, addend)
                for offset, kind, symbol, addend in entries
            ]
    return ObjectFile(code, machine, sections, symbols, relocations)


def _symbols(code: bytes, table: bytes, strings: int) -> Iterator[Symbol]:
    for name, _, _, section, value, _ in _SYMBOL.iter_unpack(table):
        start = strings + name
        yield Symbol(code[start : code.index(b"\0", start)].decode(), section, value)


def is_for_this_processor(code: bytes) -> bool:
    """True if an object says that it is for a processor of this machine's family."""
    family = os.uname().machine
    if code[:4] == _MACH_O:
        return struct.unpack_from("<I", code, 4) == (_MACH_O_FAMILIES.get(family),)
    return code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (_FAMILIES.get(family),)


def undefined_symbols(code: bytes) -> set[str] | None:
    """The names that an object leaves to others; None where it is neither ELF64 nor Mach-O (or not sound)."""
    if code[:4] == _MACH_O:
        try:
            return set(_undefined_in_mach_o(code))
        except (struct.error, IndexError, ValueError):
            return None
    file = read(code)
    if file is None:
        return None
    return {symbol.name for symbol in file.symbols if symbol.section == UNDEFINED and symbol.name}


def _undefined_in_mach_o(code: bytes) -> Iterator[str]:
    """The names of C functions that a 64-bit Mach-O object wants, without the underscore that they have there."""
    (commands,) = struct.unpack_from("<I", code, 16)
    at = 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", code, at)
        if kind == _MACH_O_SYMBOLS:
            symbols, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for number in range(count):
                name, type_, _, _, _ = _MACH_O_SYMBOL.unpack_from(code, symbols + 16 * number)
                if type_ & _MACH_O_SECTION_BITS == UNDEFINED:
                    start = strings + name
                    yield code[start : code.index(b"\0", start)].decode().removeprefix("_")
        at += size
