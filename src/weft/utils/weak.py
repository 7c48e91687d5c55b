"""Dictionaries whose keys are objects by identity, which do not keep them: tensors compare element by element."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to another of the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: object, callback: object = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or theirs is None else mine is theirs


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by identity; an entry goes when its key does."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:  # noqa: A002
        self.data: dict[Any, Any] = {}
        self._ref, data = ref_type, self.data
        self._forget = lambda reference: data.pop(reference, None)
        self.update(dict or {})

    def __getitem__(self, key: object) -> Any:
        return self.data[self._ref(key)]

    def __setitem__(self, key: object, value: Any) -> None:
        self.data[self._ref(key, self._forget)] = value

    def __delitem__(self, key: object) -> None:
        del self.data[self._ref(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self._ref(key) in self.data
        except TypeError:  # it cannot be referred to weakly
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)


WeakTensorKeyDictionary, WeakTensorRefKey = WeakIdKeyDictionary, WeakIdRef


class TensorWeakRef:
    """A weak reference to a tensor: called, it gives the tensor, or None where it is gone."""

    def __init__(self, tensor: object) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
