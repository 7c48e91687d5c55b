"""Questions of libraries about tensors without values, which PyTorch's tracing makes: there are none."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def assert_metadata_eq(
    assert_eq: Callable[[object, object], None],
    m1: Tensor,
    m2: Tensor,
    *,
    skip_symbolic: bool = False,
    skip_leaf: bool = False,
) -> None:
    """Errors: what `assert_eq` raises where two tensors, or their gradients, differ in other than device and values."""
    for name in _FLAGS:
        if not (name == "is_leaf" and skip_leaf):
            assert_eq(getattr(m1, name), getattr(m2, name))
    dense = m1.layout is weft.strided and m2.layout is weft.strided
    if not skip_symbolic:
        assert_eq(m1.shape, m2.shape)
        if dense:
            assert_eq(m1.stride(), m2.stride())
            assert_eq(m1.storage_offset(), m2.storage_offset())
    for question in ("is_inference", "is_conj", "is_neg"):
        assert_eq(getattr(m1, question)(), getattr(m2, question)())
    if m1.is_leaf and m2.is_leaf:
        assert_eq(m1.grad is None, m2.grad is None)
        if m1.grad is not None and m2.grad is not None:
            assert_metadata_eq(assert_eq, m1.grad, m2.grad, skip_symbolic=skip_symbolic)


_FLAGS = ("dtype", "layout", "requires_grad", "is_leaf", "is_sparse")
_NAMES = {
    "is_fake": is_fake,
    "unset_fake_temporarily": unset_fake_temporarily,
    "FakeTensor": FakeTensor,
    "FakeTensorMode": FakeTensorMode,
}
_join(
    sys.modules[__name__],
    {"fake_tensor": _NAMES, "meta_utils": {"assert_metadata_eq": assert_metadata_eq}},
)
