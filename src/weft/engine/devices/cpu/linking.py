# cython: language_level=3
"""The linker: object code of kernels becomes executable memory, without loading LLVM.

It takes what LLVM writes for kernels on x86-64: code and constants in which every address is written out, and which
call nothing but a few C functions. It makes an `Image`, from which addresses are read by name. For other objects, of
other processors or with other kinds of relocations, it returns None: LLVM's own linker takes them, which means its
whole library in memory.
"""

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.libc.string import memcpy, memmove, memset
from cython.cimports.weft.engine.capi.atomics import (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_PRIVATE,
    PROT_READ,
    PROT_WRITE,
    mmap,
    munmap,
)
from cython.cimports.weft.engine.devices.cpu.linking import PROT_EXEC, bzero, mprotect

from weft._build.compiled import require
from weft.engine.devices.cpu.kernel_files.object_files import UNDEFINED, read
from weft.errors import OutOfMemoryError

require(__name__, cython.compiled)

PAGE = 4096
X86_64 = 62  # the processor family's number in ELF
ABSOLUTE_64 = 1  # the only kind of relocation handled: a word that holds an address
WRITABLE, LOADED, EXECUTABLE = 1, 2, 4  # flags of sections
FROM_FILE, UNWINDING = 1, 0x70000001  # kinds of sections: bytes of the file, how to unwind

# What kernels may call.
FUNCTIONS = {
    "memcpy": cython.cast(uintptr_t, memcpy),
    "memmove": cython.cast(uintptr_t, memmove),
    "memset": cython.cast(uintptr_t, memset),
    "bzero": cython.cast(uintptr_t, bzero),  # what LLVM calls on macOS to set memory to zero
}


@cython.final
@cython.cclass
class Image:
    """Executable memory of its own, unmapped with the last reference; `image[name]` is the address of a function."""

    __weakref__: object
    address: uintptr_t
    size: cython.Py_ssize_t
    _addresses: dict

    def __init__(self):
        raise TypeError("an Image is made by link()")

    def __dealloc__(self):
        if self.address != 0:
            munmap(cython.cast(cython.p_void, self.address), self.size)

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]


def link(codes: list[bytes], names: list[str]) -> Image | None:
    """The functions `names` of some objects, in memory; None where an object is of a kind that is not linked here.

    Errors: OutOfMemoryError when there is no memory for the code.
    """
    files = [read(code) for code in codes]
    if not all([file is not None and _is_plain(file) for file in files]):
        return None
    places: list = [{} for _ in files]
    code_size: cython.Py_ssize_t = _to_page(_lay_out(files, places, 0, True))
    size: cython.Py_ssize_t = _to_page(_lay_out(files, places, code_size, False))
    image: Image = _reserve(max(size, PAGE))
    content = bytearray(size)
    found: dict = {}
    for file, place in zip(files, places, strict=True):
        _fill(content, file, place, image.address, found)
    image._addresses = {name: found[name] for name in names}
    _load(image, content, code_size)
    return image


def _is_plain(file) -> bool:
    """True if an object is code and constants for this kind of processor, and needs nothing but addresses."""
    if file.machine != X86_64:
        return False
    for section in file.sections:
        if _is_loaded(section) and (section.kind != FROM_FILE or section.flags & WRITABLE):
            return False
    return all([_can_relocate(file, relocation) for relocation in file.relocations])


def _is_loaded(section) -> bool:
    """True if a section belongs into memory; unwinding tables do not, because nothing is thrown through kernels."""
    return section.flags & LOADED and section.size > 0 and section.kind != UNWINDING


def _can_relocate(file, relocation) -> bool:
    """True if a relocation needs a known address, or belongs to a section that is left out."""
    if not _is_loaded(file.sections[relocation.section]):
        return True
    symbol = file.symbols[relocation.symbol]
    if symbol.section == UNDEFINED:
        known = symbol.name in FUNCTIONS
    else:
        known = symbol.section < len(file.sections) and _is_loaded(file.sections[symbol.section])
    return known and relocation.kind == ABSOLUTE_64


def _lay_out(files: list, places: list, start: cython.Py_ssize_t, code: bool) -> int:
    """Give sections of code, or those of constants, offsets from `start`; the end."""
    end: cython.Py_ssize_t = start
    for file, place in zip(files, places, strict=True):
        for number, section in enumerate(file.sections):
            if _is_loaded(section) and bool(section.flags & EXECUTABLE) == code:
                alignment: cython.Py_ssize_t = max(section.alignment, 1)
                end = (end + alignment - 1) // alignment * alignment
                place[number] = end
                end += section.size
    return end


@cython.cfunc
def _to_page(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return (size + PAGE - 1) // PAGE * PAGE


def _fill(content: bytearray, file, place: dict, base: uintptr_t, found: dict) -> None:
    """Copy an object's sections, write the addresses that they need, note the addresses of its functions."""
    for number, at in place.items():
        section = file.sections[number]
        content[at : at + section.size] = file.code[section.offset : section.offset + section.size]
    for symbol in file.symbols:
        if symbol.name and symbol.section in place:
            found[symbol.name] = base + place[symbol.section] + symbol.value
    for relocation in file.relocations:
        if relocation.section in place:
            word = (_wanted(file, relocation, place, base) + relocation.addend) % (1 << 64)
            at = place[relocation.section] + relocation.offset
            content[at : at + 8] = word.to_bytes(8, "little")


def _wanted(file, relocation, place: dict, base: uintptr_t) -> int:
    """The address of a relocation's symbol."""
    symbol = file.symbols[relocation.symbol]
    if symbol.section == UNDEFINED:
        return FUNCTIONS[symbol.name]
    return base + place[symbol.section] + symbol.value


@cython.cfunc
def _reserve(size: cython.Py_ssize_t) -> Image:
    """Memory that can be written to."""
    start: cython.p_void = mmap(
        cython.NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
    )
    if start == MAP_FAILED:
        raise _no_memory(size)
    image: Image = Image.__new__(Image)
    image.address = cython.cast(uintptr_t, start)
    image.size = size
    return image


@cython.cfunc
def _load(image: Image, content: bytearray, code_size: cython.Py_ssize_t) -> cython.void:
    """Write the content; then code can only be executed, constants only be read."""
    data: cython.p_char = content
    memcpy(cython.cast(cython.p_void, image.address), data, len(content))
    start: cython.p_void = cython.cast(cython.p_void, image.address)
    rest: cython.p_void = cython.cast(cython.p_void, image.address + code_size)
    if mprotect(start, code_size, PROT_READ | PROT_EXEC) != 0:
        raise _no_memory(code_size)
    if image.size > code_size:
        mprotect(rest, image.size - code_size, PROT_READ)


def _no_memory(size):
    return OutOfMemoryError(
        "loading kernels",
        expected=f"{size:,} bytes of memory that may be executed",
        got="none",
        fix="free tensors that are no longer needed, or allow executable memory",
    )
