"""PyTorch's numbers that stand for many: types that programs ask for, `isinstance(n, torch.SymInt)`. None is one."""

from __future__ import annotations

from weft.errors import NotDefinedError


class SymInt:
    """No number is one: sizes are numbers. Errors: NotImplementedError when one is made.

    Args:
        node: the number.
    """

    def __init__(self, node: object) -> None:
        name = type(self).__name__
        raise NotDefinedError(
            f"weft.{name}: sizes are numbers",
            expected="an int, a float or a bool",
            got=f"weft.{name}",
            fix="use the number itself",
        )


class SymFloat(SymInt):
    """No number is one.

    Args:
        node: the number.
    """


class SymBool(SymInt):
    """No number is one.

    Args:
        node: the number.
    """
