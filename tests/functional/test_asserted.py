"""`weft._check` and its kin raise what PyTorch's raise; `weft.detach` is the method."""

from __future__ import annotations

from typing import Any

import pytest

from oracle import both

KINDS = {
    "_check": RuntimeError, "_check_index": IndexError, "_check_value": ValueError, "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}  # fmt: skip


@both
@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_what_is_false_is_an_error_of_its_kind(lib: Any, name: str, kind: type) -> None:
    check = getattr(lib, name)
    check(True)
    check(True, lambda: pytest.fail("the message is made only for errors"))
    with pytest.raises(kind, match="too long: 3"):
        check(False, lambda: f"too long: {3}")
    with pytest.raises(kind, match="Expected cond to be True"):
        check(False)


@both
@pytest.mark.parametrize("name", KINDS)
def test_conditions_are_bools_and_messages_are_made(lib: Any, name: str) -> None:
    check = getattr(lib, name)
    for cond in (1, None, lib.tensor(True)):
        with pytest.raises(TypeError, match="cond must be a bool"):
            check(cond)
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "too long")


@both
def test_assertions_read_tensors(lib: Any) -> None:
    lib._assert(lib.tensor(True), "unread")
    with pytest.raises(AssertionError, match="square"):
        lib._assert(lib.tensor(False), "images are square")


@both
def test_detach_is_the_method(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    assert not lib.detach(x).requires_grad
    assert lib.detach(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError):
        lib.detach(3.0)
