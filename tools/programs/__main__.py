"""Public programs over PyTorch, trained on Weft unchanged: `python tools/programs [NAME ...]` makes docs/programs.md.

In: the programs of `table.py`, and the packages that they import, wherever Python finds them (a program that PyTorch
does not run here is left out). Each runs in two processes, one with PyTorch, one with Weft in its place; Weft's loads
PyTorch's `state_dict`. Random numbers come from NumPy in both. Out: a table of how far the losses are apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import applications  # noqa: F401 - fills the table
import architectures  # noqa: F401 - fills the table
import further  # noqa: F401 - fills the table
import language_models  # noqa: F401 - fills the table
import libraries  # noqa: F401 - fills the table
import numpy as np
import research  # noqa: F401 - fills the table
import specialties  # noqa: F401 - fills the table
import trainers  # noqa: F401 - fills the table
import transformed  # noqa: F401 - fills the table
from table import FEW, MANY, PACKAGES, PROGRAMS, STEPS, TRAINED

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "programs.md"
CLOSE = 1e-3  # Adam's first steps follow signs of gradients: rounding moves later losses that far in deep networks
INTRODUCTION = f"""# Public programs on Weft

After this page you will know which public programs have been trained on Weft unchanged, and how closely their losses
agree with PyTorch's.

Written by `python tools/programs`; not to be edited. Models of public packages are trained for {FEW} or {MANY}
steps by Adam, or by the package's own trainer, with PyTorch and, the package unchanged, with Weft in its place
(`weft.as_torch`), from the same `state_dict` and on the same random numbers. The last column is
the largest relative difference between the losses of a step, in float32, and where rounding has moved the losses of a
deep network far, also in float64. Where a package answers questions with what it has trained, the answers count too.

| program | package | losses apart by |
|---|---|---|
"""

ABSENT = """
Not in the table, because PyTorch itself does not run them where the table is made (Python 3.11): learn2learn 0.2.0,
which does not build; dgl 2.1.0, which imports `torchdata.datapipes`, gone since torchdata 0.10, and whose
compiled libraries are those of PyTorch 2.0 to 2.2. torch-pruning 1.6.1 finds what hangs together by the records of
the backward graph, and those are finer here (a convolution is several): it prunes too much.

## Where to go next

[Coming from PyTorch](guide/from_pytorch.md) says how to run a program of your own in this way.
"""


class Source:
    """What programs draw numbers from: NumPy, the same in both libraries."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.numbers = torch, np.random.RandomState(0)

    def normal(self, *shape: int) -> Any:
        """Normal numbers of the default type."""
        numbers = self.numbers.standard_normal(shape).astype(np.float32)
        return self.torch.tensor(numbers, dtype=self.torch.get_default_dtype())

    def below(self, bound: int, *shape: int) -> Any:
        """Integers in [0, bound)."""
        return self.torch.tensor(self.numbers.randint(0, bound, shape))

    def _as(self, array: Any, options: dict[str, Any]) -> Any:
        made = self.torch.tensor(np.asarray(array))
        made = made.to(options.get("dtype") or self.torch.get_default_dtype())
        return made.requires_grad_(options.get("requires_grad", False))

    def replace_random_functions(self) -> None:
        """Let the functions that packages draw with draw from here."""
        torch, numbers = self.torch, self.numbers

        def drawn(draw: Callable[..., Any]) -> Any:
            def by_size(*size: Any, **options: Any) -> Any:
                size = options.get("size", size)
                size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
                return self._as(draw(tuple(map(int, size))), options)

            def like(tensor: Any, **options: Any) -> Any:
                return self._as(draw(tuple(tensor.shape)), {"dtype": tensor.dtype, **options})

            return by_size, like

        torch.randn, torch.randn_like = drawn(numbers.standard_normal)
        torch.rand, torch.rand_like = drawn(numbers.random_sample)
        torch.randperm = lambda n, **options: torch.tensor(numbers.permutation(n))

        def randint(low: int, *rest: Any, **options: Any) -> Any:
            high, *size = (*rest, options.get("size")) if "size" in options else rest
            if not size:
                low, high, size = 0, low, [high]
            made = numbers.randint(low, options.get("high", high), size[-1])
            return self._as(made, {"dtype": torch.int64, **options})

        torch.randint = randint

        def multinomial(chances: Any, num_samples: int, replacement: bool = False, **_: Any) -> Any:
            if not replacement and num_samples > 1:
                keys = -np.log1p(-numbers.random_sample(tuple(chances.shape)))
                return (chances / torch.tensor(keys)).topk(num_samples, -1).indices
            places = numbers.random_sample((*chances.shape[:-1], num_samples))
            sums = chances.double().cumsum(-1)
            drawn = torch.searchsorted(sums, torch.tensor(places) * sums[..., -1:], right=True)
            return drawn.clamp(max=chances.shape[-1] - 1)

        def normal(mean: Any, std: Any = 1.0, size: Any = (), **options: Any) -> Any:
            shape = torch.broadcast_shapes(getattr(mean, "shape", ()), getattr(std, "shape", ()))
            return mean + std * torch.randn(*(size or shape), **options)

        torch.multinomial, torch.normal = multinomial, normal
        torch.distributions.Normal.rsample = lambda law, shape=(): (
            law.loc + law.scale * torch.randn(*shape, *law.batch_shape)
        )
        torch.bernoulli = lambda p, **_: (torch.rand_like(p) < p).to(p.dtype)
        torch.utils.data.RandomSampler.__iter__ = lambda sampler: iter(
            numbers.permutation(len(sampler.data_source)).tolist()
        )


def arrays_of(model: Any) -> dict[str, Any]:
    """The tensors of a `state_dict` as arrays."""
    state = model.state_dict()
    return {key: value.detach().numpy() for key, value in state.items() if hasattr(value, "numpy")}


def losses(name: str, side: str, state: Path, dtype: str) -> list[float]:
    """The losses of a program's steps, on PyTorch or on Weft, computed in a type."""
    if side == "weft":
        from weft import as_torch

        as_torch.install()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    source = Source(torch)
    source.replace_random_functions()
    model, loss_of = PROGRAMS[name](source)
    if side == "torch":
        np.savez(state, **arrays_of(model))
    else:
        saved = np.load(f"{state}.npz")
        assert set(saved.files) == set(arrays_of(model)), "other keys in the state_dict"
        given = {key: torch.tensor(saved[key]) for key in saved.files}
        model.load_state_dict({**model.state_dict(), **given})
    source.numbers.seed(1)
    return [
        float(loss)
        for loss in (loss_of() if name in TRAINED else trained(model, loss_of, STEPS[name]))
    ]


def trained(model: Any, loss_of: Callable[[], Any], steps: int) -> list[Any]:
    """The losses of some steps of Adam."""
    torch = importlib.import_module("torch")
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    found = []
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return found


def run_here(name: str, side: str, state: Path, dtype: str) -> None:
    """The child's part: one program on one library; its losses, or what it raised, on the last line."""
    try:
        answer: Any = {"losses": losses(name, side, state, dtype)}
    except Exception as error:
        traceback.print_exc()
        text = re.sub(
            r" \(/[^)]*\)", "", f"{type(error).__name__}: {error}"
        )  # without where files lie
        answer = {"error": text.splitlines()[0]}
    print(json.dumps(answer))


def run_apart(name: str, side: str, state: Path, dtype: str) -> dict[str, Any]:
    """What a child answers."""
    command = [sys.executable, str(HERE), "--child", name, side, str(state), dtype]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if "--traces" in sys.argv:
        print(done.stderr, file=sys.stderr)
    lines = done.stdout.strip().splitlines()
    answer: dict[str, Any] = (
        json.loads(lines[-1]) if lines else {"error": f"exit status {done.returncode}"}
    )
    return answer


def compared(name: str, folder: Path, dtype: str = "float32") -> float | str | None:
    """How far the losses are apart, or what Weft raises; None where PyTorch does not run the program."""
    theirs = run_apart(name, "torch", folder / name, dtype)
    if "losses" not in theirs:
        print(f"{name}: left out, PyTorch: {theirs}")
        return None
    ours = run_apart(name, "weft", folder / name, dtype)
    if "losses" not in ours:
        return f"fails: {ours['error']}"
    a, b = np.array(theirs["losses"]), np.array(ours["losses"])
    return float(np.max(np.abs(a - b) / np.abs(a)))


def row(name: str, package: str, folder: Path) -> str | None:
    """A line of the table; none where the package is not installed."""
    result = compared(name, folder)
    if result is None:
        return None
    if isinstance(result, float):
        wide = compared(name, folder, "float64") if result >= CLOSE else None
        result = f"{result:.0e}" + (f" (float64: {wide:.0e})" if isinstance(wide, float) else "")
    line = f"| {name} | {package} {metadata.version(package)} | {result} |"
    print(line, flush=True)
    return line


def known_rows() -> dict[str, str]:
    """The lines of the page as it is, by program."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return {
        line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")
    }


def main() -> None:
    """Run the programs, and write their lines of the page; others stay as they are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="programs; all unless given")
    parser.add_argument(
        "--traces", action="store_true", help="print what programs print on standard error"
    )
    options = parser.parse_args()
    rows = known_rows()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or PACKAGES:
            line = row(name, PACKAGES[name], Path(folder))
            if line is not None:
                rows[name] = line
    PAGE.write_text(
        INTRODUCTION + "\n".join(rows[name] for name in PACKAGES if name in rows) + "\n" + ABSENT
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_here(sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
    else:
        main()
