"""Pickles of Weft's own tensors, with classes that are allowed, read where a file may run nothing."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys

import pytest

import weft
from weft import nn


class Listed:
    """A class that no file format knows."""

    def __init__(self, items):
        self.items = items


def saved(value):
    stream = io.BytesIO()
    weft.save(value, stream)
    return io.BytesIO(stream.getvalue())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_tensors_beside_an_allowed_class(dtype):
    base = weft.arange(6).reshape(2, 3).to(getattr(weft, dtype))
    parameter = nn.Parameter(weft.tensor([1.5]), requires_grad=False)
    file = saved({"list": Listed([1]), "view": base[:, 1:], "base": base, "parameter": parameter})
    with weft.serialization.safe_globals([Listed]):
        found = weft.load(file)
    assert found["list"].items == [1]
    assert found["view"].dtype == base.dtype and found["base"].tolist() == base.tolist()
    assert found["view"].tolist() == base[:, 1:].tolist()
    assert found["view"].untyped_storage().data_ptr() == found["base"].untyped_storage().data_ptr()
    assert type(found["parameter"]) is nn.Parameter and not found["parameter"].requires_grad


def test_a_class_that_is_not_allowed_is_named():
    with pytest.raises(pickle.UnpicklingError, match="Listed"):
        weft.load(saved([Listed([1]), weft.ones(1)]))


class Asked:
    """What pickles as a call of a function with arguments of one's choice."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def _forged():
    from weft.tensor.copying import rebuild_storage, rebuild_tensor

    plain = Asked(rebuild_storage, bytes(8), "float32")
    return {
        "bytes of no type": Asked(rebuild_storage, bytes(8), "float33"),
        "a broken element": Asked(rebuild_storage, bytes(7), "float32"),
        "no bytes": Asked(rebuild_storage, [1.0], "float32"),
        "no storage": Asked(rebuild_tensor, weft.Tensor, [1.0], (1,), (1,), 0, False, {}),
        "a region outside": Asked(rebuild_tensor, weft.Tensor, plain, (9,), (1,), 0, False, {}),
        "a negative start": Asked(rebuild_tensor, weft.Tensor, plain, (1,), (1,), -1, False, {}),
        "no class": Asked(rebuild_tensor, 3, plain, (1,), (1,), 0, False, {}),
    }


@pytest.mark.parametrize("what", list(_forged()))
def test_forged_tensors_are_refused(what):
    content = pickle.dumps(_forged()[what], 4)
    with pytest.raises(weft.errors.CheckpointError):
        weft.load(io.BytesIO(content))


def test_pickles_of_before_hold_arrays():
    from weft.tensor.copying import rebuild_storage
    from weft.tensor.memory.host_memory import handle_of, raw_array

    array = raw_array(weft.arange(3.0))
    assert handle_of(rebuild_storage(array, "float32")).tolist() == [0.0, 1.0, 2.0]


def test_tensors_of_a_program_that_imports_pytorch(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "class Held:\n    pass\n"
        "held = Held()\nheld.value = torch.arange(3.0)\nheld.weight = torch.nn.Parameter(torch.ones(2))\n"
        "torch.serialization.add_safe_globals([Held])\n"
        f"torch.save([held], {str(tmp_path / 'held')!r})\n"
        f"[found] = torch.load({str(tmp_path / 'held')!r}, weights_only=True)\n"
        "print(found.value.tolist(), found.weight.tolist(), found.weight.requires_grad)\n"
    )
    command = [sys.executable, "-m", "weft", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[0.0, 1.0, 2.0] [1.0, 1.0] True\n"
