"""Modules in notebooks: a tree that opens, as HTML. No value is read. Text of the user's program is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Protocol

from weft.engine.frontend.tensor import Tensor
from weft.tensor.reading.html import STYLE

MOST_CHILDREN = 200  # of a module


class Shown(Protocol):
    """The parts of a module that are shown."""

    @property
    def _modules(self) -> Mapping[str, Shown | None]: ...
    @property
    def _parameters(self) -> Mapping[str, Tensor | None]: ...
    @property
    def _buffers(self) -> Mapping[str, Tensor | None]: ...
    def extra_repr(self) -> str:
        """Its settings."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """Its parameters, and those below."""
        ...


def module_html(module: Shown) -> str:
    """A module as a tree that opens: classes, settings, parameters with shape and size."""
    return f'<div style="{STYLE}">{"".join(_tree(module))}</div>'


def _tree(root: Shown) -> Iterator[str]:
    """Opening and closing tags, depth first; a module that is within itself is named once more, not opened."""
    waiting: list[tuple[str, Shown] | str] = [("", root)]
    around: list[int] = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            around.pop()
            yield item
            continue
        name, module = item
        head = _module_head(name, module)
        children = [(key, child) for key, child in module._modules.items() if child is not None]
        own = [(key, p) for key, p in module._parameters.items() if p is not None]
        own += [(key, b) for key, b in module._buffers.items() if b is not None]
        if id(module) in around or not (children or own):
            yield f"<div>{head}</div>"
            continue
        is_open = " open" if not around else ""
        yield f'<details{is_open} style="margin-left: {0 if not around else 16}px"><summary>{head}</summary>'
        around.append(id(module))
        yield "".join(_member(key, tensor) for key, tensor in own)
        rest = len(children) - MOST_CHILDREN
        waiting.append((f"<div>and {rest} more modules</div>" if rest > 0 else "") + "</details>")
        waiting.extend(reversed(children[:MOST_CHILDREN]))


def _module_head(name: str, module: Shown) -> str:
    settings = module.extra_repr().replace("\n", ", ")
    count = sum(parameter.numel() for parameter in module.parameters())
    label = f"{name}: " if name else ""
    return (
        f"{escape(label)}<b>{escape(type(module).__name__)}</b>({escape(settings)}) "
        f'<span style="color: #777">{count:,} parameters</span>'
    )


def _member(name: str, tensor: Tensor) -> str:
    shape = f"{tensor.dtype.name}{list(tensor.shape)}"
    frozen = "" if tensor.requires_grad else ", no gradient"
    return (
        f'<div style="margin-left: 16px; color: #555">{escape(name)} {escape(shape + frozen)}</div>'
    )
