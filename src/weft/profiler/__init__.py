"""`weft.profiler`: what ran in a block or in steps of a program, when, for how long, and from which line.

`profile` records, `profiler.py` is where to start reading. The engine's own events (`engine.devices.trace`) come in;
out go tables by operation, line and module, plain data (`profile.data`), and files for Perfetto, TensorBoard,
speedscope and flame graphs. Operations have PyTorch's names (`aten::mm`), what the engine does besides `weft::` ones.
"""

from weft.profiler import itt, profiler
from weft.profiler.actions import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    schedule,
    supported_activities,
)
from weft.profiler.exports import merge_chrome_traces
from weft.profiler.profiler import (
    ExecutionTraceObserver,
    profile,
    record_function,
    tensorboard_trace_handler,
)
from weft.profiler.profiler import _KinetoProfile as _KinetoProfile  # PyTorch's place for it

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "merge_chrome_traces",
    "profile",
    "profiler",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
