"""Kernels that are shipped with the package: compiles them for each level of this machine's family of processors.

    python tools/ship_kernels.py

It runs what programs begin with (every elementwise row and reduction by type and layout, and steps of small networks),
notes which kernels are asked for, and compiles these for each level: `x86-64-v3` and `x86-64-v4`, or the common ARMv8.
An archive for each goes into the package (`weft.engine.devices.cpu.shipped_kernels`). Kernels that read lanes from
anywhere by one instruction are left out: which way is quicker depends on the maker of the processor. Products and
attention are shipped for the level that this machine has, since other levels choose others.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import weft  # noqa: E402
from weft import nn  # noqa: E402
from weft.engine.devices.cpu import jit, shipped_kernels  # noqa: E402
from weft.engine.devices.cpu.codegen_hash import revision  # noqa: E402
from weft.engine.devices.cpu.disk_cache import DiskCache  # noqa: E402
from weft.engine.devices.cpu.llvm import target as targets  # noqa: E402
from weft.engine.ir.primitive import ELEMENTWISE  # noqa: E402
from weft.errors import WeftError  # noqa: E402
from weft.ops import OPS  # noqa: E402
from weft.ops.primitives import elementwise as call  # noqa: E402


class Level(NamedTuple):
    """A level: our name (`Target.name`), LLVM's, a feature that it has, what Linux says of a processor of it."""

    name: str
    cpu: str
    feature: str
    flags: set[str]


AVX2 = {"avx2"}
AVX512 = {"avx512f", "avx512bw", "avx512vl", "avx512dq", *AVX2}
LEVELS = {
    "x86_64": (
        Level("avx2", "x86-64-v3", "+avx2", AVX2),
        Level("avx512", "x86-64-v4", "+avx512vl", AVX512),
    ),
    "aarch64": (Level("neon", "generic", "+neon", set()),),
    "arm64": (Level("neon", "apple-m1", "+neon", set()),),
}
OF_ONE_LEVEL = ("gemm", "attention", "axes")
GATHER = "llvm.masked.gather"
TYPES = ("float32", "float64", "int64")
COMMON = "float32"  # in all layouts; of other types those of one shape
STEPS = 4  # of a network: its fused kernels are compiled when they come again


# -- what programs begin with ---------------------------------------------------------------------------------------


def operands(count: int, dtype: str) -> Iterator[list[Any]]:
    """Operands of a row in usual layouts: all of one shape, one of them a number, a row or a column."""
    whole = weft.tensor(np.linspace(0.1, 0.9, 24).reshape(4, 6).astype(dtype))
    yield [whole * 1 for _ in range(count)]
    for place in range(count if count > 1 and dtype == COMMON else 0):
        for other in (2, whole[0], whole[:, :1]):
            yield [other if number == place else whole * 1 for number in range(count)]


def run_table() -> None:
    """Every elementwise row."""
    for row in list(OPS.values()):
        if row.kind != ELEMENTWISE or row.name in ("cast",):
            continue
        for dtype in TYPES:
            if dtype not in row.dtypes:
                continue
            for given in operands(len(row.operands), dtype):
                with contextlib.suppress(WeftError, TypeError, ValueError):
                    call(row.name, *given).numpy()


def run_reductions() -> None:
    """Reductions along, across and over all axes; copies and conversions."""
    functions: tuple[Callable[..., Any], ...] = (
        weft.sum, weft.mean, weft.amax, weft.amin, weft.argmax, weft.argmin, weft.prod, weft.logsumexp, weft.std,
    )  # fmt: skip
    for x in (weft.rand(20), weft.rand(5, 20), weft.rand(3, 4, 20), weft.rand(5, 20).double()):
        for function in functions:
            for axis in range(x.dim()):
                with contextlib.suppress(WeftError, TypeError, ValueError):
                    function(x, axis).numpy()
            with contextlib.suppress(WeftError, TypeError, ValueError):
                function(x).numpy()
        for axis in range(x.dim()):
            x.softmax(axis).numpy()
            x.log_softmax(axis).numpy()
            weft.cat([x, x], axis).numpy()
            weft.stack([x, x], axis).numpy()
            x.transpose(0, axis).contiguous().numpy()
        for dtype in (weft.float32, weft.float64, weft.int64, weft.bool):
            x.to(dtype).numpy()


class Attending(nn.Module):
    """A small transformer over characters."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(50, width), nn.Embedding(16, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_heads, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 50, bias=False)

    def forward(self, words: Any) -> Any:
        batch, length = words.shape
        x = self.embed(words) + self.places(weft.arange(length))  # (B, T, C)
        q, k, v = [
            part.view(batch, length, 4, -1).transpose(1, 2)
            for part in self.to_heads(self.first(x)).split(x.shape[-1], -1)
        ]
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.back(seen.transpose(1, 2).reshape(batch, length, -1))
        x = x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))
        return self.head(self.last(x))


class Tagging(nn.Module):
    """A tagger of sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 50)

    def forward(self, words: Any) -> Any:
        return self.head(self.lstm(self.embed(words))[0])


class Seeing(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 50),
            nn.Dropout(0.1),
        )

    def forward(self, words: Any) -> Any:
        return self.layers(words.float().view(-1, 1, 4, 4))


class Growing(nn.Module):
    """Trees of words, one node at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.join = nn.Embedding(50, 16), nn.Linear(32, 16)
        self.gates, self.head = nn.Linear(32, 48), nn.Linear(16, 50)

    def tree(self, words: list[Any]) -> Any:
        if len(words) == 1:
            return self.embed(words[0])
        middle = len(words) // 2
        both = weft.cat([self.tree(words[:middle]), self.tree(words[middle:])])
        i, f, o = self.gates(both).chunk(3)
        return o.sigmoid() * (i.sigmoid() * self.join(both).tanh() + f.sigmoid()).tanh()

    def forward(self, words: Any) -> Any:
        return weft.stack(
            [self.head(self.tree(list(line[: 3 + n]))) for n, line in enumerate(words)]
        )


def run_networks() -> None:
    """First steps and some later ones, with the usual optimizers."""
    plain, adaptive = weft.optim.SGD, weft.optim.AdamW
    train(Attending(), lambda p: adaptive(p, lr=1e-3), True)
    train(Tagging(), lambda p: plain(p, lr=0.1, momentum=0.9), True)
    train(Seeing(), lambda p: plain(p, lr=0.1), False)
    train(Growing(), lambda p: weft.optim.Adam(p), False)


def train(model: Any, optimizer: Callable[[Any], Any], per_word: bool) -> None:
    updates = optimizer(model.parameters())
    for step in range(STEPS):
        words = weft.randint(0, 50, (4, 16))
        given = words[:, : 16 - step] if isinstance(model, Tagging) else words
        logits = model(given)
        wanted = given.reshape(-1) if per_word else given[:, 0]
        loss = nn.functional.cross_entropy(logits.reshape(-1, 50), wanted)
        updates.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        updates.step()
        loss.item()


# -- compiling -------------------------------------------------------------------------------------------------------


class Noting(jit.Compiler):
    """A compiler that keeps what it has been asked for, and the code that it has made."""

    def __init__(self, target: jit.JitTarget) -> None:
        super().__init__(target, DiskCache(None))
        self.requests: dict[str, jit.Request] = {}
        self.codes: dict[str, bytes] = {}

    def _compiled(self, request: jit.Request, text: str) -> bytes:
        code = super()._compiled(request, text)
        self.requests[request.key] = request
        if GATHER not in text:
            self.codes[request.key] = code
        return code


@contextlib.contextmanager
def as_level(flags: set[str]) -> Iterator[None]:
    """Write kernels as for a processor that has these features."""
    features = targets._features
    targets._features = lambda: flags
    targets.host.cache_clear()
    try:
        yield
    finally:
        targets._features = features
        targets.host.cache_clear()


def compile_own(level: Level) -> Noting:
    """Run the programs, with code for this machine's level."""
    compiler = Noting(jit.JitTarget(level.cpu, level.feature))
    host, jit._host = jit._host, compiler
    try:
        run_table()
        run_reductions()
        run_networks()
    finally:
        jit._host = host
    return compiler


def compile_other(level: Level, requests: dict[str, jit.Request]) -> dict[str, bytes]:
    """The same kernels for another level, but for those that it would not choose."""
    compiler = Noting(jit.JitTarget(level.cpu, level.feature))
    with as_level(level.flags):
        for key, request in requests.items():
            if not key.startswith(OF_ONE_LEVEL):
                compiler._compiled(request, request.build())
    return compiler.codes


def main() -> None:
    levels = LEVELS.get(os.uname().machine, ())
    begun, own_name = time.monotonic(), targets.host().name
    own = next((level for level in levels if level.name == own_name), None)
    if own is None:
        print("weft: no kernels are shipped for this family of processors")
        return
    for level in levels:
        shipped_kernels.path_of(level.name).unlink(missing_ok=True)
    compiler = compile_own(own)
    for level in levels:
        codes = compiler.codes if level is own else compile_other(level, compiler.requests)
        size = shipped_kernels.pack(level.name, revision(), codes)
        about = f"{len(codes)} kernels for {level.name}, {size / 1e6:.1f} MB"
        print(f"weft: {about}, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
