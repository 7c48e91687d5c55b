"""The hardware available to this process: memory and cores, within the limits of its container.

Reads the kernel's own accounts once per question. The pool and the threads decide what to do with the answers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

UNLIMITED = 1 << 62


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _cgroup_memory() -> int:
    """The container's memory limit under cgroup 2 or 1."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(path).strip()
        if text.isdigit():
            return int(text)
    return UNLIMITED


def _swap() -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("SwapTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def physical_memory() -> int:
    """Bytes of main memory this process may use."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(installed, _cgroup_memory())


def memory_limit() -> int:
    """The most bytes that could ever be live here: memory and swap, or the address space limit."""
    import resource  # named by importing weft otherwise, which asks nothing yet

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    address_space = UNLIMITED if soft == resource.RLIM_INFINITY else soft
    return min(physical_memory() + _swap(), address_space)


def any_too_large(sizes: Iterable[int]) -> bool:
    """True if one of these numbers of bytes alone is more than could ever be live here."""
    limit = memory_limit()
    return any(size > limit for size in sizes)


def _cgroup_cores() -> float:
    """The container's CPU quota in cores under cgroup 2."""
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    return math.inf


def _siblings(cpu: int) -> str:
    """The hardware threads that share this one's core; the thread alone where nothing is known."""
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return _read(path).strip() or str(cpu)


def usable_cores() -> int:
    """Physical cores that this process may run on, at least one."""
    if hasattr(os, "sched_getaffinity"):
        cores = len({_siblings(cpu) for cpu in os.sched_getaffinity(0)})
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, math.ceil(_cgroup_cores()) if _cgroup_cores() < cores else cores))
