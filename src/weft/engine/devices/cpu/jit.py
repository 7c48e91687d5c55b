"""The JIT compiler: LLVM IR becomes machine code, with addresses that can be called.

`compile_kernel` and `compile_batch` take a key, a function that writes the IR, and the symbols wanted. Compiled code
is found again in memory by key, then on disk by the hash of the IR and of all that shapes its code, where a note under
a key and the revision of what writes the IR saves writing it only to name it. A cold batch is linked as one library,
which is unloaded when it is the least recently used and nobody holds it. Code may call nothing outside itself but a
few C memory functions, so what is cached on disk cannot depend on this process. LLVM is loaded by the first kernel
that has to be compiled: what is found on disk is linked without it where `linking` can. Kernels compiled with the
package (`shipped_kernels`) are asked for first. What need not be there at once is compiled in the `background`. Codegen
decides what the IR computes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from weft._progress import shown
from weft.engine.capi.lru_table import LruTable
from weft.engine.devices import trace
from weft.engine.devices.cpu import linking
from weft.engine.devices.cpu.background import BackgroundCompiler, KernelRequest, register
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache, default_directory
from weft.engine.devices.cpu.kernel_files.object_files import undefined_symbols
from weft.engine.devices.cpu.kernel_files.shipped_kernels import Archive, open_for
from weft.engine.devices.cpu.llvm.target import host, processor, reads_lane_by_lane
from weft.errors import VerificationError

# LLVM's code generator may call these on its own account.
ALLOWED_SYMBOLS = frozenset(linking.FUNCTIONS)
CODEGEN_LEVEL = 1
LANE_BY_LANE = "+prefer-no-gather"  # LLVM's feature for gathers that load lane by lane
IN_MEMORY = 4096


class KernelLibrary(dict[str, int]):
    """The addresses of a kernel's functions by name; the code stays loaded while this is held."""

    __slots__ = ("key", "tracker")

    def __init__(self, key: str, addresses: dict[str, int], tracker: Any) -> None:
        super().__init__(addresses)
        self.key = key
        self.tracker = tracker  # of the whole batch: its last library takes the code with it


class JitCounters:
    """Counts and seconds of compilation since the start, or since `reset`."""

    def __init__(self) -> None:
        self.compilations = 0
        self.memory_hits = self.disk_hits = self.shipped_hits = 0
        self.links = self.refused = 0
        self.build_seconds = self.compile_seconds = self.link_seconds = 0.0

    @property
    def seconds(self) -> float:
        """All time that went into kernels that were not in memory."""
        return self.build_seconds + self.compile_seconds + self.link_seconds

    def reset(self) -> None:
        """Start at zero."""
        self.__init__()  # type: ignore[misc]


class JitTarget:
    """The processor that code is generated for; empty cpu and features mean the machine we run on."""

    def __init__(self, cpu: str = "", features: str = "", level: int = CODEGEN_LEVEL) -> None:
        self.cpu, self.features, self.level = cpu, features, level
        self.identity = ""
        self.is_own = not cpu and not features and level == CODEGEN_LEVEL


def _own_features(llvm: ModuleType) -> str:
    """The features of this machine. Gathers are switched off for AMD's processors, whose gather instruction is slower
    than loading lane by lane."""
    features: str = llvm.get_host_cpu_features().flatten()
    return f"{features},{LANE_BY_LANE}" if reads_lane_by_lane() else features


def _machine_note(level: int) -> str:
    """A name for this processor under this LLVM, without asking LLVM; empty where the system does not describe the
    processor."""
    about = processor()
    found = importlib.util.find_spec("llvmlite")
    if not about or found is None or found.origin is None:
        return ""
    with os.scandir(os.path.join(os.path.dirname(found.origin), "binding")) as library:
        sizes = sorted(
            f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}"
            for file in library
            if file.is_file()
        )
    system = os.uname()
    names = system.sysname, system.release, system.machine
    text = "\0".join((*names, about, f"level {level}", *sizes))
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _giving_back_llvm() -> Iterator[None]:
    """Give back LLVM's lock where an exception leaves it taken. llvmlite takes it for each call; what a handler of
    signals raises between taking it and the call, or while it is given back, leaves it with this thread: every other
    one that compiles would wait forever."""
    try:
        yield
    except BaseException:
        ffi = sys.modules.get("llvmlite.binding.ffi")
        lock = getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)
        while lock is not None and lock._is_owned():
            lock.release()
        raise


class Compiler:
    """One LLJIT with its caches. The module-level functions use one for the host."""

    def __init__(
        self,
        target: JitTarget | None = None,
        disk: DiskCache | None = None,
        in_memory: int = IN_MEMORY,
        verify: bool = False,
    ) -> None:
        self.target = target or JitTarget()
        self.counters = JitCounters()
        self.verify = verify
        self._disk = disk
        self._archives: dict[str, Archive | None] = {}  # of shipped kernels, by revision
        self._libraries = LruTable(in_memory)
        self._lock = threading.RLock()
        self._start_lock = threading.RLock()  # of what two threads do
        self._batches = 0
        self._llvm: Any = None
        self.background: BackgroundCompiler | None = None

    @property
    def disk(self) -> DiskCache:
        """The disk cache, looked for at the first question."""
        if self._disk is None:
            self._disk = DiskCache(default_directory())
        return self._disk

    def batch(self, requests: Sequence[KernelRequest]) -> list[KernelLibrary]:
        """The libraries of several kernels; those not in memory are linked as one."""
        with self._lock, _giving_back_llvm():
            found = [self._remembered(request) for request in requests]
            cold = [r for r, library in zip(requests, found, strict=True) if library is None]
            if cold:
                made = self._load(list({request.key: request for request in cold}.values()))
                found = [
                    made[request.key] if library is None else library
                    for request, library in zip(requests, found, strict=True)
                ]
            return [library for library in found if library is not None]

    def compile_in_background(self) -> BackgroundCompiler:
        """Let a thread compile for this one, from now on."""
        self.background = BackgroundCompiler(self.find, self.compile_text)
        return self.background

    def _finished(self, request: KernelRequest) -> bytes | None:
        """The object code of a kernel that was compiled in the background."""
        return None if self.background is None else self.background.take(request.key)

    def find(self, request: KernelRequest) -> bytes | str:
        """The object code of a kernel that need not be compiled, empty where it is in memory; else its IR."""
        with self._lock, _giving_back_llvm():
            if request.key in self._libraries:
                return b""
            return self._code_or_text(request, identified=bool(self.target.identity))

    def _remembered(self, request: KernelRequest) -> KernelLibrary | None:
        library: KernelLibrary | None = self._libraries.get(request.key)
        self.counters.memory_hits += library is not None
        return library

    def _load(self, requests: list[KernelRequest]) -> dict[str, KernelLibrary]:
        """Object code for each request, linked together and remembered."""
        kernels = shown(requests, "compiling", len(requests), "kernel")
        codes = [self._finished(request) or self._object_code(request) for request in kernels]
        names = [name for request in requests for name in request.symbols]
        start = time.perf_counter()
        tracker = self._link(codes, names)
        self.counters.link_seconds += time.perf_counter() - start
        self.counters.links += 1
        made = {}
        for request in requests:
            addresses = {name: tracker[name] for name in request.symbols}
            made[request.key] = KernelLibrary(request.key, addresses, tracker)
            self._libraries.put(request.key, made[request.key])
        return made

    def _object_code(self, request: KernelRequest) -> bytes:
        """The object code of a kernel: shipped, or from disk, or compiled and stored there."""
        found = self._code_or_text(request)
        return found if isinstance(found, bytes) else self.compile_text(request, found)

    def _code_or_text(self, request: KernelRequest, identified: bool = True) -> bytes | str:
        """The object code of a kernel, shipped or noted on disk (where the processor is `identified`, which a note
        belongs to); else its IR."""
        code = self._shipped_code(request)
        if code is None and identified:
            code = self._noted_code(request)
        return self._text_of(request) if code is None else code

    def _text_of(self, request: KernelRequest) -> str:
        start = time.perf_counter()
        text = request.build()
        self.counters.build_seconds += time.perf_counter() - start
        return text

    def compile_text(self, request: KernelRequest, text: str) -> bytes:
        """The object code of a kernel with this IR: from disk, or compiled and stored there. The entry that belongs to
        a key is noted on disk, too: then the IR need not be written."""
        note = self._note_of(request)
        name = self._digest(text)
        code = self._stored(name)
        if code is None:
            code = self._compiled(request, text)
            self.disk.store(name, code)
        if note:
            self.disk.store(note, name.encode())
        return code

    def _note_of(self, request: KernelRequest) -> str:
        """The entry on disk that names the object code of a key; "" where keys stand for no text."""
        self._identify()
        return self._digest(f"{request.revision}\0{request.key}") if request.revision else ""

    def _noted_code(self, request: KernelRequest) -> bytes | None:
        note = self._note_of(request)
        name = (self.disk.load(note) or b"").decode() if note else ""
        return self._stored(name) if name else None

    def _shipped_code(self, request: KernelRequest) -> bytes | None:
        """The code of this kernel that was compiled with the package, or None. It is for the machine's own level
        alone, so the processor need not be identified."""
        if not request.revision or not self.target.is_own:
            return None
        if request.revision not in self._archives:
            self._archives[request.revision] = open_for(host().name, request.revision)
        archive = self._archives[request.revision]
        code = None if archive is None else archive.load(request.key)
        if code is None or self._refuses(code):
            return None
        self.counters.shipped_hits += 1
        return code

    def _digest(self, text: str) -> str:
        return hashlib.sha256(f"{self.target.identity}\0{text}".encode()).hexdigest()

    def _stored(self, name: str) -> bytes | None:
        code = self.disk.load(name)
        if code is not None and self._refuses(code):
            self.counters.refused += 1
            return None
        self.counters.disk_hits += code is not None
        return code

    def _compiled(self, request: KernelRequest, text: str) -> bytes:
        began = trace.clock()
        code = self.compile(text)
        trace.note("compile", began, request.key)
        extra = self._refuses(code)
        if extra:
            raise VerificationError(
                f"kernel {request.key[:60]!r}",
                expected="code that calls nothing but " + ", ".join(sorted(ALLOWED_SYMBOLS)),
                got="calls of " + ", ".join(sorted(extra)),
                fix="lower the operation to IR of its own",
            )
        return code

    def _refuses(self, code: bytes) -> set[str]:
        """The undefined symbols that keep code from being linked."""
        undefined = undefined_symbols(code)
        return {"(unreadable)"} if undefined is None else undefined - ALLOWED_SYMBOLS

    def compile(self, text: str) -> bytes:
        """LLVM IR to object code for the target, without a pass pipeline."""
        self._start()
        start = time.perf_counter()
        with self._llvm.parse_assembly(text) as module:
            if self.verify:
                module.verify()
            code = bytes(self._machine.emit_object(module))
        self.counters.compilations += 1
        self.counters.compile_seconds += time.perf_counter() - start
        return code

    def assembly(self, text: str) -> str:
        """The target's assembly for LLVM IR, to be read."""
        with self._lock:
            self._start()
            with self._llvm.parse_assembly(text) as module:
                return str(self._machine.emit_assembly(module))

    def _link(self, codes: list[bytes], names: list[str]) -> Any:
        """Addresses by name, in something that keeps the code loaded; by LLVM where `linking` cannot."""
        return linking.link(codes, names) or self._link_by_llvm(codes, names)

    def _link_by_llvm(self, codes: list[bytes], names: list[str]) -> Any:
        self._start()
        builder = self._llvm.JITLibraryBuilder()
        for code in codes:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        for name, address in linking.FUNCTIONS.items():
            builder.import_symbol(name, address)
        self._batches += 1
        return builder.link(self._lljit, f"batch{self._batches}")

    def _identify(self) -> None:
        """Find out once what shapes code in addition to its IR: from disk, if an earlier process has noted it."""
        if not self.target.identity:
            with self._start_lock:
                self._read_identity()

    def _read_identity(self) -> None:
        if self.target.identity:
            return
        note = "" if self.target.cpu or self.target.features else _machine_note(self.target.level)
        known = (self.disk.load(note) or b"").decode() if note else ""
        if known.count("\n") >= 3:
            _, self.target.cpu, self.target.features, *_ = known.split("\n")
            self.target.identity = known
            return
        self._start()
        if note:
            self.disk.store(note, self.target.identity.encode())

    def _start(self) -> None:
        """Import llvmlite and make the target machine and the linker, once, on whichever thread compiles first."""
        with self._start_lock:
            if self._llvm is None:
                self._load_llvm()

    def _load_llvm(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = self.target
        target.cpu = target.cpu or llvm.get_host_cpu_name()
        target.features = target.features or _own_features(llvm)
        triple = llvm.get_process_triple()
        versions = (llvmlite.__version__, *map(str, llvm.llvm_version_info))
        target.identity = "\n".join(
            (triple, target.cpu, target.features, f"level {target.level}", *versions)
        )
        self._machine = self._new_machine(llvm, triple)
        self._lljit = llvm.create_lljit_compiler(self._new_machine(llvm, triple))
        self._llvm = llvm

    def _new_machine(self, llvm: ModuleType, triple: str) -> Any:
        return llvm.Target.from_triple(triple).create_target_machine(
            cpu=self.target.cpu,
            features=self.target.features,
            opt=self.target.level,
            codemodel="jitdefault",
            jit=True,
        )

    def host(self) -> tuple[str, str]:
        """The CPU name and the feature string that code is generated for."""
        with self._lock:
            self._identify()
            return self.target.cpu, self.target.features

    def forget(self) -> None:
        """Drop all libraries that nobody else holds."""
        with self._lock:
            self._libraries.clear()

    def __len__(self) -> int:
        return len(self._libraries)

    def after_fork(self) -> None:
        """In the child: another thread may have held the lock."""
        self._lock, self._start_lock = threading.RLock(), threading.RLock()


_host = Compiler()
background = _host.compile_in_background()
register(background)
os.register_at_fork(after_in_child=_host.after_fork)


def compile_kernel(key: str, build: Callable[[], str], symbols: Sequence[str]) -> KernelLibrary:
    """The addresses of a kernel's functions; `build` writes its LLVM IR if it must be had anew.

    Hold the result as long as the addresses may be called.
    """
    return _host.batch([KernelRequest(key, build, symbols)])[0]


def compile_batch(requests: Sequence[KernelRequest]) -> list[KernelLibrary]:
    """Several kernels at once: the ones not in memory become one library."""
    return _host.batch(requests)


def compiler() -> Compiler:
    """The host's compiler, with its counters."""
    return _host
