"""Types of `weft.engine.ir.mode` (the fields are declared in its .pxd)."""

from typing import Any

class Contexts:
    anomaly: bool | None
    checkpoint_policy: Any
    hooks_disabled: str | None
    mapping: Any
    randomness: tuple[Any, ...] | None
    recomputation_group: Any
    refuse_reads: Any
    transform: str | None
    transposing: bool | None
    note_write: Any
    def __init__(
        self,
        around: Contexts | None = None,
        *,
        anomaly: bool | None = None,
        checkpoint_policy: Any = None,
        hooks_disabled: str | None = None,
        mapping: Any = None,
        randomness: tuple[Any, ...] | None = None,
        recomputation_group: Any = None,
        refuse_reads: Any = None,
        transform: str | None = None,
        transposing: bool | None = None,
        note_write: Any = None,
    ) -> None: ...

class Mode:
    grad: bool
    inference: bool
    eager: bool
    anomaly: bool
    walk: int
    chosen: bool
    intact: int
    duals: Any
    saved_hooks: Any
    contexts: Contexts | None
    fiber: Any
    def copy(self) -> Mode: ...
    def is_plain(self) -> bool: ...
    def is_untransformed(self) -> bool: ...
