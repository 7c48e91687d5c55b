"""Events of profiles under `autograd`, where PyTorch's programs look for them."""

from weft.profiler.actions import DeviceType
from weft.profiler.event_list import EventList
from weft.profiler.function_events import (
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    StringTable,
)

__all__ = [
    "DeviceType",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "StringTable",
]
