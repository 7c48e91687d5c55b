"""Data pipes: data sets whose steps are registered as methods of all others, as packages written for them declare
them.

`functional_datapipe("name")` returns a class as it is, and makes `pipe.name(...)` build the class on `pipe`. The steps
that PyTorch itself registers are not here: a `Dataset` and a `DataLoader` do what they did.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from weft.data.dataset import Dataset, IterableDataset
from weft.errors import MissingError


class _Piped:
    """A data set that has the registered steps as methods."""

    functions: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise MissingError(
            f"'{type(self).__name__}' object has no attribute '{name}'",
            expected=f"a step that is registered: {sorted(type(self).functions)}",
            got=name,
            fix=f"register one: @functional_datapipe({name!r})",
        )

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., object]) -> None:
        """Make `pipe.function_name(...)` call `function(pipe, ...)`.

        Args:
            function_name: the name of the method.
            function: what it calls.
        """
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make `pipe.function_name(...)` build a class on `pipe`. Errors: ValueError for a name that is taken.

        Args:
            function_name: the name of the method.
            cls_to_register: the class of pipes that it makes.
            enable_df_api_tracing: accepted, without effect. Default: False.
        """
        if function_name in cls.functions:
            raise ValueError(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


class IterDataPipe(_Piped, IterableDataset):
    """A stream of examples with steps as methods."""

    functions = {}

    def reset(self) -> None:
        """Begin anew: nothing to do unless a subclass keeps where it is."""


class DFIterDataPipe(IterDataPipe):
    """A stream of tables."""


class MapDataPipe(_Piped, Dataset):
    """Examples by index with steps as methods."""

    functions = {}


class DataChunk(list[Any]):
    """Several examples as one.

    Args:
        items: the elements.
    """

    def __init__(self, items: Iterable[object]) -> None:
        super().__init__(items)
        self.items = list(self)

    def raw_iterator(self) -> Iterator[Any]:
        """The examples."""
        yield from self.items


class IterableWrapper(IterDataPipe):
    """A stream of what an iterable gives."""

    def __init__(self, iterable: Iterable[object], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


class SequenceWrapper(MapDataPipe):
    """The elements of a sequence by index."""

    def __init__(self, sequence: Sequence[object], deepcopy: bool = True) -> None:
        self.sequence = sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


class functional_datapipe:  # noqa: N801 - PyTorch's name
    """A decorator of a class of pipes: `pipe.name(...)` makes one of it. Errors: TypeError for another class.

    Args:
        name: the method's name.
        enable_df_api_tracing: accepted, without effect. Default: False.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: type) -> type:
        for base in (IterDataPipe, MapDataPipe):
            if issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
