"""The examples in PyTorch's documentation, run by both libraries: `python tools/conformance examples`.

In: the docstrings of the installed PyTorch. Out: how many of their statements end alike and print the same, numbers to
three digits, and those that do not. Both draw the same random numbers, from NumPy. A program that this module starts
for each library runs the examples (`examples.py LIBRARY FOLDER`), in a folder of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import json
import math
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

MODULES = (  # noqa: SIM905 - a list of words
    "torch.Tensor torch torch.nn torch.nn.functional torch.linalg torch.fft torch.special torch.distributions "
    "torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data torch.utils.checkpoint "
    "torch.utils.hooks torch.utils.dlpack torch.nn.init torch.nn.utils torch.nn.utils.rnn "
    "torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.prune torch.nn.utils.stateless "
    "torch.nn.attention torch.nn.attention.bias torch.nn.parallel torch.autograd torch.autograd.functional "
    "torch.autograd.graph torch.autograd.forward_ad torch.autograd.function torch.func torch.sparse torch.nested "
    "torch.masked torch.random torch.amp torch.signal.windows torch.library torch.overrides torch.testing "
    "torch.serialization torch.futures"
).split()
LEFT_OUT = ("torch.hub.", "torch.compile", "torch.export")  # networks and PyTorch's compiler
SECONDS = 20  # of a statement
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")

Outcome = list[str]  # "ok" and what was printed, or the class of an error and its first line
Outcomes = dict[str, list[Outcome]]

# -- what PyTorch's documentation says ------------------------------------------------------------------------------


def documented() -> Iterator[tuple[str, str]]:
    """Names of PyTorch's and their docstrings, each once."""
    seen: set[int] = set()
    for module in MODULES:
        owner = _named(module)
        for name in sorted(vars(owner) if inspect.isclass(owner) else dir(owner)):
            value = getattr(owner, name, None)
            if name.startswith("_") or inspect.ismodule(value) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{module}.{name}", inspect.getdoc(value) or ""
            if inspect.isclass(value) and value.__module__.startswith("torch"):
                for member, function in vars(value).items():
                    if (
                        not member.startswith("_")
                        and callable(function)
                        and id(function) not in seen
                    ):
                        seen.add(id(function))
                        yield f"{module}.{name}.{member}", inspect.getdoc(function) or ""


def _named(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ImportError:  # a class
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def examples() -> dict[str, list[str]]:
    """The statements of each name's examples."""
    found = {}
    for name, text in documented():
        statements = _statements(text)
        if statements and not name.startswith(LEFT_OUT):
            found[name] = statements
    return found


def _statements(text: str) -> list[str]:
    try:
        return [example.source for example in doctest.DocTestParser().get_examples(text)]
    except ValueError:  # lines that doctest does not take
        found: list[str] = []
        for line in map(str.strip, text.splitlines()):
            if line.startswith(">>> "):
                found.append(line[4:] + "\n")
            elif line.startswith("...") and found:
                found[-1] += line[4:] + "\n"
        return found


# -- a program that runs them ---------------------------------------------------------------------------------------


class Draws:
    """Random functions of a library, whose numbers are NumPy's."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.source = np.random.RandomState(0)
        for name, law in (("randn", self.source.randn), ("rand", self.source.rand)):
            setattr(lib, name, self._of_law(law))
            setattr(lib, f"{name}_like", self._like(name))
        lib.randint = self._integers
        lib.randperm = lambda n, **options: lib.tensor(self.source.permutation(n).tolist())

    def _made(self, values: Any, options: dict[str, Any]) -> Any:
        dtype = options.get("dtype") or self.lib.get_default_dtype()
        if dtype.is_complex:
            values = values + 1j * self.source.randn(*values.shape)
        made = self.lib.tensor(values.tolist(), dtype=dtype).reshape(values.shape)
        return made.requires_grad_() if options.get("requires_grad") else made

    def _of_law(self, law: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*size: Any, **options: Any) -> Any:
            size = (*([options["size"]] if "size" in options else []), *size)
            shape = size if len(size) != 1 or isinstance(size[0], int) else tuple(size[0])
            return self._made(np.asarray(law(*map(int, shape))), options)

        return drawn

    def _like(self, name: str) -> Callable[..., Any]:
        def drawn(tensor: Any, **options: Any) -> Any:
            return getattr(self.lib, name)(
                tuple(tensor.shape), **{"dtype": tensor.dtype, **options}
            )

        return drawn

    def _integers(self, *bounds: Any, **options: Any) -> Any:
        given = list(bounds)
        size = options["size"] if "size" in options else given.pop()
        if "high" in options:
            given.append(options["high"])
        low, high = (0, *given)[-2:]
        options.setdefault("dtype", self.lib.int64)
        return self._made(self.source.randint(low, high, tuple(size)), options)


class _TooLong(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooLong


def outcome(statement: str, names: dict[str, Any]) -> Outcome:
    """What comes of a statement."""
    printed = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(statement, "<example>", "single"), names)
    except BaseException as error:  # whatever an example raises
        return [type(error).__name__, str(error).partition("\n")[0]]
    finally:
        signal.alarm(0)
    return ["ok", printed.getvalue()]


def run(lib: Any, statements: dict[str, list[str]]) -> Outcomes:
    """What comes of all statements, those of each name by themselves."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    draws = Draws(lib)
    found: Outcomes = {}
    for name, lines in statements.items():
        lib.manual_seed(0)
        draws.source.seed(0)
        lib.set_default_dtype(lib.float32)
        lib.set_default_device(None)
        lib.set_grad_enabled(True)
        lib.use_deterministic_algorithms(False)
        names = {"torch": lib, "nn": lib.nn, "F": lib.nn.functional, "math": math, "np": np}
        found[name] = [outcome(line, names) for line in lines]
    return found


def main(library: str, folder: Path) -> None:
    """Run the examples in this process; PyTorch's also reads them from its documentation."""
    kept = folder / "statements.json"
    if library == "weft":
        import weft

        weft.as_torch.install()
    else:
        kept.write_text(json.dumps(examples()))
    found = run(importlib.import_module("torch"), json.loads(kept.read_text()))
    (folder / f"{library}.json").write_text(json.dumps(found))


# -- the comparison -------------------------------------------------------------------------------------------------


def is_near(one: str, other: str) -> bool:
    """True if two texts are equal but for spaces, the library's name and the last digits of numbers."""
    texts = [re.sub(r"\s+", "", text.replace("torch", "weft")) for text in (one, other)]
    if texts[0] == texts[1]:
        return True
    if _NUMBER.sub("#", texts[0]) != _NUMBER.sub("#", texts[1]):
        return False
    numbers = [[float(each.group()) for each in _NUMBER.finditer(text)] for text in texts]
    return bool(np.allclose(*numbers, rtol=2e-3, atol=2e-5, equal_nan=True))


def kind_of(theirs: Outcome, ours: Outcome) -> str:
    """How two outcomes compare."""
    if theirs[0] != "ok" and ours[0] != "ok":
        return "both raise"
    if theirs[0] != ours[0]:
        return "only PyTorch raises" if ours[0] == "ok" else "only Weft raises"
    return "the same" if is_near(theirs[1], ours[1]) else "other values or texts"


def report() -> list[str]:
    """Lines: how many statements compare how, and those that are not the same."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for library in ("torch", "weft"):
            command = [sys.executable, __file__, library, path]
            subprocess.run(command, check=True, cwd=path)
        statements, theirs, ours = (
            json.loads((folder / f"{name}.json").read_text())
            for name in ("statements", "torch", "weft")
        )
    counts: dict[str, int] = {}
    lines = []
    for name, sources in statements.items():
        for source, one, other in zip(sources, theirs[name], ours[name], strict=True):
            kind = kind_of(one, other)
            counts[kind] = counts.get(kind, 0) + 1
            if kind not in ("the same", "both raise"):
                lines += [f"{name}: {source.strip()!r:.120}", f"  PyTorch {one!r:.150}"]
                lines += [f"  Weft    {other!r:.150}"]
    total = f"{sum(counts.values())} statements of {len(statements)} names"
    return [*lines, total, *[f"  {kind}: {count}" for kind, count in sorted(counts.items())]]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
