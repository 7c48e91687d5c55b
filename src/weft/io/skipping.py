"""Files without the bytes of their tensors: inside `skip_data`, `save` writes zeros in their place, and `load` gives
tensors of zeros. What the file says of them (types, shapes, who shares memory) is as always.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

_on: ContextVar[bool] = ContextVar("skip_data", default=False)


def is_on() -> bool:
    """True if the bytes of tensors are left out."""
    return _on.get()


class skip_data:  # noqa: N801 - PyTorch's name
    """A context in which `weft.save` and `weft.load` leave the bytes of tensors out: all that they hold is zero.

    A file so written has the room for its values, for another pass to fill.

    Args:
        materialize_fake_tensors: accepted, without effect: there are no fake tensors, and those on the device meta are
            saved as such.

    Example:
        >>> import io, weft
        >>> file = io.BytesIO()
        >>> with weft.serialization.skip_data():
        ...     weft.save({"weight": weft.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> weft.load(file)
        {'weight': tensor([0., 0.])}
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_on.set(True))

    def __exit__(self, *exception: object) -> None:
        _on.reset(self._tokens.pop())
