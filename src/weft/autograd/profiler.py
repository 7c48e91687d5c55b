"""The profiler under `autograd`, where PyTorch's programs look for it."""

from contextlib import nullcontext

from weft.profiler import EventList, profile, record_function

__all__ = ["EventList", "emit_itt", "emit_nvtx", "profile", "record_function"]


class emit_nvtx(nullcontext[None]):  # noqa: N801 - PyTorch's name
    """A context that changes nothing: no device reads marks."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        super().__init__()


class emit_itt(emit_nvtx):  # noqa: N801 - as above
    """A context that changes nothing."""
