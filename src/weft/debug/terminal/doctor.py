"""`weft.doctor`, and the command `weft doctor`: what Weft runs on, and what makes it slow here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import weft
from weft.config import config
from weft.engine.devices.api import devices
from weft.engine.devices.cpu import hardware, threads
from weft.engine.devices.cpu.kernel_files import disk_cache, shipped_kernels

PACKAGES = "numpy llvmlite safetensors matplotlib tensorboard onnx torch".split()  # noqa: SIM905


class Doctor:
    """Facts by name, and advice where something is slow."""

    def __init__(self, facts: dict[str, str], advice: list[str]) -> None:
        self.facts, self.advice = facts, advice

    def __str__(self) -> str:
        width = max(map(len, self.facts))
        lines = [f"{name.ljust(width)}  {fact}" for name, fact in self.facts.items()]
        slow = [f"slow: {text}" for text in self.advice] or ["nothing found that makes it slow"]
        return "\n".join([*lines, *slow])

    __repr__ = __str__


def doctor() -> Doctor:
    """The processor, memory, threads, devices, caches with their sizes, versions, and what is slow and why.

    Nothing is computed, and nothing leaves the machine.
    """
    cache, entries, nbytes = cache_size()
    kernels = [path for path in Path(shipped_kernels.FOLDER).glob("*") if path.is_file()]
    facts = {
        "weft": f"{weft.__version__}, Python {platform.python_version()} on {platform.system()}",
        "processor": f"{processor()}, {os.cpu_count()} logical cores, {hardware.usable_cores()} to be used",
        "features": features(),
        "memory": f"{hardware.memory_limit() / (1 << 30):.1f} GiB to be used",
        "threads": str(threads.get_num_threads()),
        "devices": ", ".join(device.name for device in devices()),
        "kernel cache": f"{cache or 'none'}: {entries} entries, {nbytes / (1 << 20):.1f} MiB",
        "shipped kernels": ", ".join(f"{p.name} {p.stat().st_size >> 10} KiB" for p in kernels)
        or "none",
        "packages": ", ".join(f"{name} {version}" for name, version in versions()),
    }
    return Doctor(facts, advice(cache, bool(kernels)))


def processor() -> str:
    """The processor's name."""
    for line in _processor_lines():
        if line.startswith(("model name", "CPU implementer")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def features() -> str:
    """The vector instructions that the processor has, as far as the system says."""
    for line in _processor_lines():
        if line.startswith(("flags", "Features")):
            words = line.partition(":")[2].split()
            wanted = ("avx", "fma", "f16c", "amx", "asimd", "sve")
            return " ".join(word for word in words if word.startswith(wanted))
    return "unknown"


def _processor_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def versions() -> list[tuple[str, str]]:
    """The packages that Weft uses where they are installed, with their versions."""
    found = []
    for name in PACKAGES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def cache_size() -> tuple[str, int, int]:
    """The folder of the kernel cache, how many files it has, and their bytes."""
    folder = disk_cache.default_directory()
    if not folder or not os.path.isdir(folder):
        return folder or "", 0, 0
    sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    return folder, len(sizes), sum(sizes)


def advice(cache: str, shipped: bool) -> list[str]:
    """Advice on what makes programs slow here."""
    found = []
    if threads.get_num_threads() > hardware.usable_cores():
        found.append("more threads than cores: weft.set_num_threads, or WEFT_NUM_THREADS, to fewer")
    if not cache:
        found.append("kernels are compiled in each process: set WEFT_CACHE_DIR to a folder")
    if not shipped:
        found.append("no kernels are shipped with this build: first steps wait for the compiler")
    if config.verify or config.guard or config.replay:
        found.append("WEFT_VERIFY, WEFT_GUARD or WEFT_REPLAY is on: each run is checked")
    if not (config.cache and config.batch):
        found.append("config.cache or config.batch is off")
    if sys.gettrace() is not None or sys.getprofile() is not None:
        found.append("Python is traced or profiled: recording takes several times as long")
    return found
