"""Kernels that are shipped with the package: compiles them for each level of this machine's family of processors.

    python tools/ship_kernels.py [--own] [--package FOLDER]

It runs what programs begin with (`first_programs`, `first_images`), notes which kernels are asked for, and compiles
these for each level: `x86-64-v3` and `x86-64-v4`, or the common ARMv8; `--own`: for that of this machine alone. An
archive for each goes into the package in FOLDER, or the sources' (`kernel_files.shipped_kernels`). One that these
sources have written is left as it is. Kernels with gathers are compiled both ways, since which one is quicker depends
on the maker of the processor. Products are listed for each level, since levels choose others; attention is shipped for
the level that this machine has.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--own", action="store_true", help="only for this machine's level")
    sources = Path(__file__).resolve().parents[1] / "src"
    parser.add_argument("--package", type=Path, default=sources, help="the folder that weft is in")
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, str(arguments().package.resolve()))

from weft.config import config  # noqa: E402
from weft.engine.devices.cpu import jit  # noqa: E402
from weft.engine.devices.cpu.background import KernelRequest  # noqa: E402
from weft.engine.devices.cpu.codegen_hash import revision  # noqa: E402
from weft.engine.devices.cpu.kernel_files import shipped_kernels  # noqa: E402
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache  # noqa: E402
from weft.engine.devices.cpu.llvm import target as targets  # noqa: E402
from weft.testing.tuned import tuned  # noqa: E402


class Level(NamedTuple):
    """A level: our name (`Target.name`), LLVM's, features that it has, what Linux says of a processor of it, and
    features for reading lanes from anywhere, by the way (lane by lane or not)."""

    name: str
    cpu: str
    features: str
    flags: set[str]
    ways: dict[bool, str]


AVX2 = {"avx2"}
AVX512 = {"avx512f", "avx512bw", "avx512vl", "avx512dq", *AVX2}
BOTH = {True: jit.LANE_BY_LANE, False: "+fast-gather"}
LEVELS = {
    "x86_64": (
        Level("avx2", "x86-64-v3", "+avx2", AVX2, BOTH),
        Level("avx512", "x86-64-v4", "+avx512vl", AVX512, BOTH),
    ),
    "aarch64": (Level("neon", "generic", "+neon", set(), {}),),
    "arm64": (Level("neon", "apple-m1", "+neon", set(), {}),),
}
OF_ONE_LEVEL = ("gemm", "attention", "axes")
GATHER = "llvm.masked.gather"


class Noting(jit.Compiler):
    """A compiler that keeps what it has been asked for, and the code that it has made."""

    def __init__(self, level: Level) -> None:
        super().__init__(jit.JitTarget(level.cpu, level.features), DiskCache(None))
        self.requests: dict[str, KernelRequest] = {}
        self.codes: dict[str, bytes] = {}
        self._ways = {
            way: jit.Compiler(jit.JitTarget(level.cpu, f"{level.features},{feature}"))
            for way, feature in level.ways.items()
        }

    def _compiled(self, request: KernelRequest, text: str) -> bytes:
        code = super()._compiled(request, text)
        self.requests[request.key] = request
        if GATHER not in text or not self._ways:
            self.codes[request.key] = code
            return code
        for way, compiler in self._ways.items():
            self.codes[shipped_kernels.key_of_way(request.key, way)] = compiler.compile(text)
        return code

    def compile_all(self, requests: list[KernelRequest]) -> None:
        """Compile what has not been asked for."""
        for request in requests:
            if request.key not in self.requests:
                self._compiled(request, request.build())


@contextlib.contextmanager
def as_level(level: Level) -> Iterator[None]:
    """Write kernels as for a processor of this level."""
    features = targets._features
    targets._features = lambda: level.flags
    targets.host.cache_clear()
    try:
        yield
    finally:
        targets._features = features
        targets.host.cache_clear()


def products() -> list[KernelRequest]:
    """Matrix products of all shapes and orders in memory, with a bias and without, as the present level cuts them."""
    from weft.engine.devices.cpu.gemm import lower_gemm
    from weft.engine.devices.cpu.gemm.choose import launch_gemm

    sizes, orders = (*range(1, 10), 20, 256), tuple(product((False, True), repeat=2))
    requests = []
    for dtype in ("float32", "float64"):
        variants = {
            launch_gemm(dtype, 1, m, n, 64, None, along).variant
            for m, n, along in product(sizes, sizes, orders)
        }
        for variant in sorted([*variants, *(f"{variant}_bias" for variant in variants)]):
            name = f"gemm_{dtype}_{variant}"
            build = partial(lower_gemm, dtype, name, variant)
            requests.append(KernelRequest(name, build, (name,), revision()))
    return requests


def compile_own(level: Level) -> Noting:
    """Run the programs, with code for this machine's level."""
    import first_images
    import first_programs

    compiler = Noting(level)
    host, jit._host = jit._host, compiler
    before, config.background_compilation = config.background_compilation, False
    try:
        with tuned("tiering", soon_part=0.0):  # what comes again is fused
            first_programs.run()
            first_images.run()
    finally:
        jit._host, config.background_compilation = host, before
    compiler.compile_all(products())
    return compiler


def compile_other(level: Level, requests: list[KernelRequest]) -> Noting:
    """The same kernels for another level, but for those that it would not choose, and its own products."""
    compiler = Noting(level)
    with as_level(level):
        compiler.compile_all([r for r in requests if not r.key.startswith(OF_ONE_LEVEL)])
        compiler.compile_all(products())
    return compiler


def is_current(level: Level) -> bool:
    """Whether the archive of a level is of these sources: those that write kernels, and these programs."""
    if shipped_kernels.open_for(level.name, revision()) is None:
        return False
    written = Path(shipped_kernels.path_of(level.name)).stat().st_mtime
    here = Path(__file__)
    sources = (here, *(here.with_name(f"first_{name}.py") for name in ("programs", "images")))
    return all(source.stat().st_mtime <= written for source in sources)


def main() -> None:
    options = arguments()
    levels = LEVELS.get(os.uname().machine, ())
    begun, own_name = time.monotonic(), targets.host().name
    own = next((level for level in levels if level.name == own_name), None)
    if own is None:
        print("weft: no kernels are shipped for this family of processors")
        return
    wanted = [own] if options.own else levels
    stale = [level for level in wanted if not is_current(level)]
    for level in stale:
        Path(shipped_kernels.path_of(level.name)).unlink(missing_ok=True)
    if not stale:
        return
    print("weft: compiling the kernels that programs begin with", flush=True)
    compiler = compile_own(own)
    for level in stale:
        made = compiler if level is own else compile_other(level, [*compiler.requests.values()])
        size = shipped_kernels.pack(level.name, revision(), made.codes)
        about = f"{len(made.codes)} kernels for {level.name}, {size / 1e6:.1f} MB"
        print(f"weft: {about}, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
