"""Programs that import `torch` run on Weft unchanged: in a process of their own, PyTorch being in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from oracle import torch

TRAIN = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
data = TensorDataset(torch.randn(32, 4), torch.randint(2, (32,)))
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=8):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(__name__, type(loss).__module__, loss.item() > 0)
"""
ASKED = """
from importlib import metadata, util
from weft import as_torch
as_torch.install()
as_torch.install()  # twice is once
import torch, weft, torch.nn, torch.nn.functional as F
import torch.distributions.normal, torch.optim.lr_scheduler
from torch import *
assert torch.__name__ == "torch" and torch.__version__ == metadata.version("torch") == "2.13.0"
import torch.version
assert torch.version.__version__ == torch.__version__ >= (2, 13) and torch.version.cuda is None
assert "2.9" < torch.__version__ < "2.13.1" and isinstance(torch.__version__, torch.torch_version.TorchVersion)
assert weft.version.__version__ == weft.__version__ != torch.__version__
assert torch.torch is torch
assert torch.nn is weft.nn and F is weft.nn.functional and torch.Tensor is weft.Tensor and torch.float is weft.float
assert weft.nn.__spec__.name == weft.nn.__name__ == "weft.nn" and weft.nn.__path__
assert util.find_spec("torch.nn") and not util.find_spec("torch.unheard") and not hasattr(torch, "unheard")
assert "randn" in dir(torch) and matmul is weft.matmul
torch.pi = 3  # what a program writes to torch is its own
assert weft.pi != 3
try:
    import torch.unheard
except ModuleNotFoundError as error:
    assert error.name == "torch.unheard"
try:
    metadata.version("torch_not_there")
except metadata.PackageNotFoundError:
    print("fine")
"""
NAMED = """
from weft import as_torch
as_torch.install()
import torch, warnings
x = torch.ones(2, 3)
assert str(x.dtype) == "torch.float32" and getattr(torch, str(x.dtype).removeprefix("torch.")) is x.dtype
assert repr(x.shape) == "torch.Size([2, 3])" and x.type() == torch.typename(x) == "torch.FloatTensor"
assert x.to_sparse().type() == "torch.sparse.FloatTensor" and str(x.layout) == "torch.strided"
assert str(torch.channels_last) == "torch.channels_last" and str(torch.float8_e5m2) == "torch.float8_e5m2"
assert x.storage().type() == "torch.FloatStorage" and str(torch.LongTensor) == "torch.LongTensor"
assert repr(torch.max(x, 0)).startswith("torch.return_types.max(")
assert "torch.float64" in str(x.double()[0]) or "dtype=torch.float64" in repr(x.double())
try:
    torch.autograd.grad(x.requires_grad_() * 2, x, torch.ones(2))
except RuntimeError as error:
    assert "has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([2, 3])" in str(error)
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    torch.nn.functional.mse_loss(x, torch.ones(3))
assert "(torch.Size([3])) that is different to the input size (torch.Size([2, 3]))" in str(given[0].message)
print("fine")
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process of Python in a folder."""
    path = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[2] / "src"), os.getenv("PYTHONPATH")))
    )
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=environment
    )


@pytest.mark.parametrize("called", [["train.py"], ["-m", "train"]], ids=["file", "module"])
def test_a_program_trains(called: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = run("-m", "weft", "run", *called, "0.1", folder=tmp_path)
    assert done.stdout.split() == ["__main__", "torch", "True"], done.stderr


def test_what_importing_finds(tmp_path: Path) -> None:
    done = run("-c", ASKED, folder=tmp_path)
    assert done.stdout.strip() == "fine", done.stderr


def test_parts_of_python_that_pytorch_brings(tmp_path: Path) -> None:
    """Packages use `multiprocessing.connection` and its like without importing them."""
    program = tmp_path / "asks.py"
    program.write_text(
        "import torch, multiprocessing, urllib, concurrent\n"
        "print(multiprocessing.connection.wait([], 0), urllib.request.Request, concurrent.futures.Future)\n"
    )
    done = run("-m", "weft", "run", str(program), folder=tmp_path)
    assert done.stdout.startswith("[]"), done.stderr


def test_texts_name_the_package_as_the_program_does(tmp_path: Path) -> None:
    done = run("-c", NAMED, folder=tmp_path)
    assert done.stdout.strip() == "fine", done.stderr


def test_texts_name_weft_where_the_program_does() -> None:
    x = weft.ones(2, 3)
    assert str(x.dtype) == "weft.float32" and repr(x.shape) == "weft.Size([2, 3])"


def test_what_a_program_raises_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.zeros(2) + torch.zeros(3)\n")
    done = run("-m", "weft", "run", "train.py", folder=tmp_path)
    assert done.returncode == 1 and "train.py" in done.stderr and "ShapeError" in done.stderr


def test_after_pytorch_it_is_refused() -> None:
    assert torch.__version__
    from weft import as_torch

    with pytest.raises(RuntimeError, match="PyTorch is already imported"):
        as_torch.install()


def test_torchaudio_is_imported_without_its_compiled_part(tmp_path: Path) -> None:
    """A package laid out as torchaudio is: what it loads was compiled against PyTorch."""
    package = tmp_path / "torchaudio"
    (package / "_extension").mkdir(parents=True)
    (package / "_extension" / "__init__.py").write_text("raise OSError('loads a library')")
    (package / "__init__.py").write_text(
        "from . import _extension\n"
        "from torchaudio._extension import fail_if_no_align, _IS_ALIGN_AVAILABLE\n"
        "@fail_if_no_align\ndef forced_align(x): return x\n"
    )
    program = tmp_path / "listen.py"
    program.write_text(
        "import torchaudio\nprint(torchaudio._IS_ALIGN_AVAILABLE)\n"
        "try: torchaudio.forced_align(1)\nexcept OSError as error: print(error)\n"
        "print(hasattr(torchaudio._extension, 'unheard'))\n"
        "print(torchaudio._extension._load_lib('libctc_prefix_decoder'))\n"
    )
    done = run("-m", "weft", "run", str(program), folder=tmp_path)
    refusal = "forced_align: operations compiled for PyTorch do not run here"
    assert done.stdout.splitlines() == ["False", refusal, "False", "False"], done.stderr
