"""Classes that annotations write with brackets, as PyTorch's generic ones: `DataLoader[int]` is DataLoader."""

from __future__ import annotations


def _itself(cls: type, item: object) -> type:
    return cls


subscripted: classmethod[type, [object], type] = classmethod(_itself)  # for `__class_getitem__`
