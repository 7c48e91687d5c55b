"""Files of PyTorch's, old and new: every type, views and shared storages come as they were; nothing in them is run."""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.errors import CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore")

TYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
]  # fmt: skip
FORMATS = [True, False]


def through(value: Any, new: bool = True, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    return weft.load(file, **options)


def same(mine: weft.Tensor, theirs: Any) -> bool:
    wide = theirs.float() if theirs.dtype is torch.bfloat16 else theirs
    own = mine.float() if mine.dtype is weft.bfloat16 else mine
    return str(mine.dtype)[5:] == str(theirs.dtype)[6:] and np.array_equal(
        own.detach().numpy(force=True),
        wide.detach().resolve_conj().numpy(),
        equal_nan=not wide.is_complex(),
    )


@pytest.mark.parametrize("new", FORMATS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_shape(dtype: str, new: bool) -> None:
    base = torch.randn(4, 3, 2).mul(3).to(getattr(torch, dtype))
    kept = [base, base[1:, ::2].transpose(0, 2), base[2, 1, 1], base[:0], torch.empty(0, 3)]
    kept = [part.to(base.dtype) for part in kept]
    for mine, theirs in zip(through(kept, new), kept, strict=True):
        assert same(mine, theirs)
        assert theirs.numel() == 0 or mine.stride() == theirs.stride()


@pytest.mark.parametrize("new", FORMATS)
def test_a_module_s_state_and_plain_values(new: bool) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    kept = {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "values": [1, 2**70, -1.5, "text", None, True, (1, (2,)), {3}, b"bytes", 1 + 2j],
        "counts": collections.Counter("aab"),
        "types": [torch.float16, torch.Size([2, 3]), torch.device("cpu")],
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    }
    loaded = through(kept, new)
    assert loaded["values"] == kept["values"] and dict(loaded["counts"]) == {"a": 2, "b": 1}
    assert loaded["types"] == [weft.float16, weft.Size((2, 3)), weft.device("cpu")]
    assert isinstance(loaded["model"], collections.OrderedDict)
    ours = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2))
    ours.load_state_dict(loaded["model"])
    assert same(ours[0].weight, net[0].weight)
    mine = weft.optim.Adam(ours.parameters())
    mine.load_state_dict(loaded["optimizer"])
    assert mine.state[ours[0].weight]["step"] == 1
    assert isinstance(loaded["parameter"], weft.nn.Parameter)
    assert not loaded["parameter"].requires_grad


@pytest.mark.parametrize("new", FORMATS)
def test_shared_storages_stay_shared(new: bool) -> None:
    base = torch.arange(12.0)
    tied = torch.nn.Parameter(torch.ones(2))
    loaded = through({"a": base[3:], "b": base.view(3, 4).t(), "p": tied, "q": tied}, new)
    loaded["a"].zero_()
    assert loaded["b"].t().reshape(-1).tolist() == [0.0, 1.0, 2.0, *[0.0] * 9]
    assert loaded["p"] is loaded["q"] and loaded["p"].requires_grad


def test_conjugated_and_expanded_views() -> None:
    value = torch.randn(3, dtype=torch.complex64)
    conj, wide = through([value.conj(), value.real.clone().expand(2, 3)])
    assert same(conj, value.conj()) and wide.stride() == (0, 1)


def test_types_that_do_not_exist_here_are_named() -> None:
    with pytest.raises(CheckpointError, match="float8_e5m2"):
        through(torch.zeros(2).to(torch.float8_e5m2))
    batch = torch.stack([torch.eye(2)] * 2)
    assert through(batch.to_sparse_csr()).to_dense().tolist() == batch.tolist()


def test_where_tensors_come_to() -> None:
    for place in ("cpu", weft.device("cpu"), lambda storage, where: storage, {"cuda:0": "cpu"}):
        assert through(torch.ones(2), map_location=place).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        through(torch.ones(2), map_location="cuda")


@pytest.mark.parametrize("new", FORMATS)
def test_other_classes_are_refused_and_named(new: bool) -> None:
    kept = {"args": argparse.Namespace(lr=0.1), "w": torch.ones(2)}
    with pytest.raises(pickle.UnpicklingError, match=r"(?s)argparse.Namespace.*add_safe_globals"):
        through(kept, new)
    assert through(kept, new, weights_only=False)["args"].lr == 0.1
    with weft.serialization.safe_globals([argparse.Namespace]):
        assert through(kept, new)["args"].lr == 0.1
    assert weft.serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="neither a class nor a function"):
        weft.serialization.add_safe_globals([3])


# -- files that lie ------------------------------------------------------------------------------------------------


class Calls:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def archive(pickled: bytes, records: dict[str, bytes] | None = None, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as made:
        made.writestr("x/data.pkl", pickled)
        for name, content in (records or {}).items():
            made.writestr(f"x/{name}", content)
    file.seek(0)
    return file


@pytest.mark.parametrize("wrap", [lambda data: io.BytesIO(data), archive])
@pytest.mark.parametrize("protocol", [2, 4])
def test_hostile_pickles_are_refused_and_named(wrap: Any, protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for hostile, named in [
        (Calls(exec, f"open({str(marker)!r}, 'w')"), r"builtins.exec"),
        (Calls(Path.touch, marker), r"getattr|Path"),
        (Calls(eval, "1"), r"builtins.eval"),
    ]:
        for value in (hostile, {"state": [hostile]}, collections.OrderedDict(a=hostile)):
            with pytest.raises(pickle.UnpicklingError, match=named):
                weft.load(wrap(pickle.dumps(value, protocol)))
    assert not marker.exists()


def rebuilt(size: Any, stride: Any, offset: Any = 0, count: int = 4) -> io.BytesIO:
    """A file with a storage of four floats and a tensor that claims a shape."""
    out = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return ("storage", torch.FloatStorage, "0", "cpu", count) if value is out else None

    tensor = Calls(torch._utils._rebuild_tensor_v2, out, offset, size, stride, False, {})
    pickled = io.BytesIO()
    Pickler(pickled, 2).dump(tensor)
    return archive(pickled.getvalue(), {"data/0": struct.pack("4f", 1, 2, 3, 4)})


def test_tensors_stay_within_their_storage() -> None:
    assert weft.load(rebuilt((2, 2), (2, 1))).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for size, stride, offset, count in [
        ((5,), (1,), 0, 4), ((2, 2), (3, 1), 0, 4), ((2,), (1,), 3, 4), ((1,), (1,), -1, 4), ((2,), (-1,), 1, 4),
        ((-1,), (1,), 0, 4), ((2,), (1, 1), 0, 4), ((2**62,), (0,), 0, 4), ((2.0,), (1,), 0, 4), ((2,), (1,), 0, 5),
        ([2], (1,), 0, 4), ((1,), (1,), 2**70, 4), ((True,), (1,), 0, 4),
    ]:  # fmt: skip
        with pytest.raises(CheckpointError, match="load"):
            weft.load(rebuilt(size, stride, offset, count))


def test_archives_that_lie_are_refused() -> None:
    good = pickle.dumps({"a": 1}, 2)
    assert weft.load(archive(good)) == {"a": 1}
    compressed = archive(good * 100, compression=zipfile.ZIP_DEFLATED)
    for file, text in [
        (compressed, "compressed"),
        (archive(good, {"constants.pkl": b""}), "TorchScript"),
        (archive(good, {"byteorder": b"middle"}), "order of bytes"),
        (io.BytesIO(archive(good).getvalue()[:-10]), "cannot be opened"),
        (archive(good[:-1]), "pickle"),
        (archive(b""), "pickle"),
    ]:
        with pytest.raises(CheckpointError, match=text):
            weft.load(file)


def test_deep_and_strange_pickles_are_refused() -> None:
    deep_key = b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s."
    deep_list = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    for content in (
        deep_key, b"\x80\x02a.", b"\x80\x02(.", b"\x80\x02]K\x01s.", b"\x80\x02h\x05.", b"\x80\x02K\x01K\x02R.",
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00aK\x01sb(.", b"\x80\x02K\x01}b.", b"\x80\x02}Q.",
        b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ):  # fmt: skip
        with pytest.raises(CheckpointError):
            weft.load(io.BytesIO(content))
    assert isinstance(weft.load(io.BytesIO(deep_list)), list)


def test_whole_modules_of_older_files(tmp_path: Path) -> None:
    """They name their classes beside the source; read where PyTorch's names are Weft's."""
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 3), path, _use_new_zipfile_serialization=False)
    text = f"import torch; print(torch.load({str(path)!r}, weights_only=False))"
    assert under_weft(text) == "Linear(in_features=2, out_features=3, bias=True)\n"


def pickled() -> dict[str, Any]:
    """One of everything that a data set's pickle may hold."""
    x = torch.arange(6.0).reshape(2, 3)
    return {
        "tensor": x,
        "views": [x.t(), x[1:]],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "types": [torch.ones(2).to(getattr(torch, name)) for name in TYPES],
        "empty": torch.zeros(0),
        "sparse": torch.eye(2).to_sparse(),
        "size": x.shape,
        "dtype": torch.float64,
        "device": x.device,
        "module": torch.nn.Linear(2, 3),
    }


@pytest.mark.parametrize("protocol", (2, 4, 5))
def test_tensors_that_pickle_wrote(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes(pickle.dumps(pickled(), protocol))
    names = ["views", "types", "empty", "size", "dtype", "device", "module"]
    text = (
        f"import pickle; x = pickle.load(open({str(path)!r}, 'rb')); print([x[n] for n in {names}])"
    )
    expected = pickled()
    assert under_weft(text) == f"{[expected[name] for name in names]}\n"


def under_weft(text: str) -> str:
    """The output of a program that takes Weft for PyTorch."""
    start = "import weft; weft.as_torch.install()"
    command = [sys.executable, "-W", "error", "-c", f"{start}; {text}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


PYTHON_2 = b"\x80\x02}q\x00U\x01aU\x02\xe4\xf6s."  # {"a": "\xe4\xf6"}, both strings of bytes


@pytest.mark.parametrize("encoding", ["latin1", "bytes", None])
def test_strings_of_python_2_are_read_in_the_encoding(encoding: str | None) -> None:
    options = {} if encoding is None else {"encoding": encoding}
    results: list[Any] = []
    for library in (weft, torch):
        file = io.BytesIO(PYTHON_2 if library is weft else archive_of(PYTHON_2))
        try:
            results.append(library.load(file, weights_only=False, **options))
        except (UnicodeDecodeError, CheckpointError) as error:
            results.append("utf-8" in str(error))
    assert results[0] == results[1]
    if encoding is not None:
        archive = io.BytesIO(archive_of(PYTHON_2))
        assert weft.load(archive, weights_only=False, **options) == results[1]


def archive_of(pickled: bytes) -> bytes:
    """A file of PyTorch's with another pickle in it."""
    made, file = io.BytesIO(), io.BytesIO()
    torch.save(0, made)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, pickled if name.endswith("/data.pkl") else old.read(name))
    return file.getvalue()


@pytest.mark.parametrize("new", FORMATS)
def test_tensors_of_trusted_files_come_with_any_encoding(new: bool) -> None:
    value = {"w": torch.arange(4.0), "name": "x"}
    for encoding in ("latin1", "utf-8", "bytes"):
        found = through(value, new, weights_only=False, encoding=encoding)
        assert found["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.filterwarnings("error")
def test_an_encoding_is_for_trusted_files() -> None:
    with pytest.warns(UserWarning, match="pickle_load_args only works if `weights_only=False`"):
        through({"w": torch.ones(1)}, encoding="latin1")


def test_what_load_says_as_pytorch() -> None:
    with pytest.raises(EOFError):
        weft.load(io.BytesIO())
    file = io.BytesIO()
    weft.save({"w": weft.ones(1)}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="^Attempting to deserialize object on a CUDA device"):
        weft.load(file, map_location="cuda")


def test_globals_of_a_saved_module_are_named() -> None:
    file = io.BytesIO()
    weft.save(weft.nn.ReLU(), file)
    file.seek(0)
    named = weft.serialization.get_unsafe_globals_in_checkpoint(file)
    assert named == ["weft.nn.modules.activation.ReLU"]
