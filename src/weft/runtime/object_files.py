"""Object files as LLVM writes them for kernels: ELF64, little-endian.

`read(code)` gives sections, symbols and relocations; `undefined_symbols` what code leaves to others. What may be
linked is decided in `jit`, where it goes in `linking`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

UNDEFINED = 0  # the section of a symbol that others define
_SYMBOL_TABLE, _RELOCATIONS, _NO_BYTES = 2, 4, 8  # kinds of sections
_SECTION = struct.Struct(
    "<IIQQQQIIQQ"
)  # name kind flags address offset size link info alignment entry
_SYMBOL = struct.Struct("<IBBHQQ")  # name info other section value size
_RELOCATION = struct.Struct("<QIIq")  # offset kind symbol addend


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
    """What an object file holds; `machine` is ELF's number of the processor family."""

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
    sections, symbols, relocations = [], [], []
    for index in range(count):
        _, kind, flags, _, offset, size, link, info, alignment, _ = _SECTION.unpack_from(
            code, table + index * entry_size
        )
        if kind != _NO_BYTES and offset + size > len(code):
            raise ValueError("a section behind the end of the file")
        sections.append(Section(kind, flags, offset, size, link, info, alignment))
    for section in sections:
        entries = range(section.offset, section.offset + section.size, 24)
        if section.kind == _SYMBOL_TABLE:
            strings = sections[section.link].offset
            symbols += [_symbol(code, at, strings) for at in entries]
        elif section.kind == _RELOCATIONS:
            relocations += [_relocation(code, at, section.info) for at in entries]
    return ObjectFile(code, machine, sections, symbols, relocations)


def _symbol(code: bytes, at: int, strings: int) -> Symbol:
    name, _, _, section, value, _ = _SYMBOL.unpack_from(code, at)
    start = strings + name
    return Symbol(code[start : code.index(b"\0", start)].decode(), section, value)


def _relocation(code: bytes, at: int, section: int) -> Relocation:
    offset, kind, symbol, addend = _RELOCATION.unpack_from(code, at)
    return Relocation(section, offset, kind, symbol, addend)


def undefined_symbols(code: bytes) -> set[str] | None:
    """The names that an ELF64 object leaves to others; None where it is not one (or not sound)."""
    file = read(code)
    if file is None:
        return None
    return {symbol.name for symbol in file.symbols if symbol.section == UNDEFINED and symbol.name}
