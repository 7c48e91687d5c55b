"""The profiler under `autograd`, where PyTorch's programs look for it."""

from weft.profiler import EventList, profile, record_function

__all__ = ["EventList", "profile", "record_function"]
