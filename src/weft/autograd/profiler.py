"""The profiler under `autograd`, where PyTorch's programs look for it."""

from weft.profiler import profile, record_function

__all__ = ["profile", "record_function"]
