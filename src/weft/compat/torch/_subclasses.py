"""Questions of libraries about tensors without values, which PyTorch's tracing makes: there are none."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import weft
from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError


def is_fake(x: Tensor) -> bool:
    """True if a tensor has no values: never."""
    return False


def unset_fake_temporarily() -> nullcontext[None]:
    """A context that changes nothing: no such mode is on."""
    return nullcontext()


class FakeTensor(weft.Tensor):
    """No tensor is one: `weft.empty(..., device="meta")` has no values."""


class FakeTensorMode(nullcontext[None]):
    """Errors: NotImplementedError when one is made."""

    def __init__(self, *arguments: object, **options: object) -> None:
        raise NotDefinedError(
            "FakeTensorMode: nothing is traced",
            expected="tensors without values on the device meta",
            got="a mode of PyTorch's tracing",
            fix="use `with weft.device('meta'):`",
        )


_NAMES = {
    "is_fake": is_fake,
    "unset_fake_temporarily": unset_fake_temporarily,
    "FakeTensor": FakeTensor,
    "FakeTensorMode": FakeTensorMode,
}
_join(sys.modules[__name__], {"fake_tensor": _NAMES})
