"""A traced module as a package of Python source: `GraphModule.to_folder`.

It writes `module.py` with a class that has the module's `forward`, the modules below it and its parameters as files,
and `__init__.py`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import weft
from weft.errors import package_name, rooted

from .names import BUILT_IN

if TYPE_CHECKING:
    from ..graph_module import GraphModule

_SOURCE = """from math import inf, nan
from pathlib import Path

import {root}
from {root} import device
from {root}.fx import _pytree as fx_pytree
from {root}.utils import _pytree as pytree
{imports}
NoneType = type(None)
torch = weft = {root}
folder = Path(__file__).resolve().parent


class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
{members}
        self.load_state_dict(torch.load(folder / "state_dict.pt"))

{code}
"""


def write_folder(module: GraphModule, folder: Path, name: str) -> None:
    """Write a module as a package whose class has a name."""
    folder.mkdir(parents=True, exist_ok=True)
    weft.save(module.state_dict(), folder / "state_dict.pt")
    for child, below in module.named_children():
        weft.save(below, folder / f"{child}.pt")
    written = module.graph.python_code(root_module="self")
    text = _SOURCE.format(
        root=package_name(),
        imports="".join(_imports(written.globals)),
        name=name,
        members="\n".join(f"        {line}" for line in _members(module)),
        code="\n".join(f"    {line}".rstrip() for line in written.src.strip().splitlines()),
    )
    (folder / "module.py").write_text(text)
    (folder / "__init__.py").write_text("from .module import *\n")


def _imports(names: dict[str, Any]) -> Iterator[str]:
    """A line for each function and type that the code names, where it is found by its module and name."""
    for name, value in names.items():
        if name in BUILT_IN or hasattr(builtins, name):
            continue
        if isinstance(value, str):  # an annotation
            yield f"{name} = {value!r}\n"
        elif "." not in getattr(value, "__qualname__", "."):
            yield f"from {value.__module__} import {value.__qualname__} as {name}\n"


def _members(module: GraphModule) -> Iterator[str]:
    """A line for each module below and each parameter and buffer of the module itself."""
    for name, _ in module.named_children():
        loaded = f'torch.load(folder / "{name}.pt", weights_only=False)'
        yield f'self.add_module("{name}", {loaded})'
    for name, parameter in module.named_parameters(recurse=False):
        yield f'self.register_parameter("{name}", torch.nn.Parameter({_empty(parameter)}))'
    for name, buffer in module.named_buffers(recurse=False):
        yield f'self.register_buffer("{name}", {_empty(buffer)})'


def _empty(tensor: weft.Tensor) -> str:
    return f"torch.empty({list(tensor.shape)}, dtype={rooted(repr(tensor.dtype))})"
