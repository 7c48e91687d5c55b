"""Names and ways of calling that older PyTorch programs use mean what they mean in PyTorch."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, submodule, torch
from weft import nn

FILES = [name for name in nn.modules._FILES if name not in ("utils", "lazy")]  # no layers


def in_both(function: Any) -> tuple[Any, Any]:
    """What a function of a library gives with Weft and with PyTorch."""
    return function(weft), function(torch)


@pytest.mark.parametrize("file", FILES)
def test_files_of_layers_hold_what_pytorchs_hold(file: str) -> None:
    theirs = submodule(f"torch.nn.modules.{file}")
    ours = importlib.import_module(f"weft.nn.modules.{file}")
    defined = {
        n for n in dir(theirs) if getattr(getattr(theirs, n), "__module__", "") == theirs.__name__
    }
    shared = [name for name in defined if name in nn.__all__]
    assert shared
    for name in shared:
        assert getattr(ours, name) is getattr(nn, name), name


@pytest.mark.parametrize(
    ("base", "layers"),
    [
        ("batchnorm._BatchNorm", ["BatchNorm1d", "BatchNorm2d"]),
        ("batchnorm._NormBase", ["BatchNorm2d", "InstanceNorm2d"]),
        ("instancenorm._InstanceNorm", ["InstanceNorm1d"]),
        ("conv._ConvNd", ["Conv1d", "Conv2d", "ConvTranspose2d"]),
        ("conv._ConvTransposeNd", ["ConvTranspose1d"]),
        ("dropout._DropoutNd", ["Dropout", "Dropout2d"]),
        ("rnn.RNNBase", ["LSTM", "GRU", "RNN"]),
        ("rnn.RNNCellBase", ["LSTMCell", "GRUCell"]),
        ("loss._Loss", ["MSELoss", "BCELoss"]),
        ("loss._WeightedLoss", ["CrossEntropyLoss", "BCELoss"]),
        ("pooling._MaxPoolNd", ["MaxPool2d"]),
    ],
)
def test_base_classes_that_programs_ask_for(base: str, layers: list[str]) -> None:
    file, name = base.split(".")
    for library in ("weft", "torch"):
        found = getattr(submodule(f"{library}.nn.modules.{file}"), name)
        space = submodule(f"{library}.nn")
        assert all(issubclass(getattr(space, layer), found) for layer in layers)
        assert not issubclass(space.Linear, found)


@pytest.mark.parametrize("value", [2, (1, 2), [1, 2], "ab"])
def test_a_number_for_all_dimensions(value: Any) -> None:
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        mine, theirs = (
            getattr(submodule(f"{library}.nn.modules.utils"), name)(value)
            for library in ("weft", "torch")
        )
        assert mine == theirs


@pytest.mark.parametrize(
    "name",
    ["uniform", "normal", "eye", "dirac", "orthogonal", "xavier_uniform", "xavier_normal", "kaiming_uniform",
     "kaiming_normal"],
)  # fmt: skip
def test_initialisers_without_underscore_warn_and_fill_alike(name: str) -> None:
    shape = (4, 3, 3) if name == "dirac" else (4, 3)
    weft.manual_seed(3)
    new = getattr(nn.init, f"{name}_")(weft.empty(shape))
    weft.manual_seed(3)
    with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
        old = getattr(nn.init, name)(weft.empty(shape))
    assert weft.equal(old, new)


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("shape", [(6, 2, 3), (6, 4, 3, 2), (12, 2, 1, 3, 4)])
def test_dirac(shape: tuple[int, ...], groups: int) -> None:
    mine, theirs = in_both(lambda m: m.nn.init.dirac_(m.ones(shape), groups).numpy())
    assert np.array_equal(mine, theirs)


def test_dirac_refuses_what_no_convolution_has() -> None:
    for shape, groups in (((2, 2), 1), ((4, 2, 3), 3)):
        for library in (weft, torch):
            with pytest.raises(ValueError):
                library.nn.init.dirac_(library.ones(shape), groups)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_sparse_columns_have_their_share_of_zeros(share: float) -> None:
    weft.manual_seed(0)
    drawn = nn.init.sparse_(weft.empty(30, 7), share, std=0.5)
    assert ((drawn == 0).sum(0) == math.ceil(30 * share)).all()
    if share < 1:
        assert 0.3 < drawn[drawn != 0].std().item() < 0.7


def test_the_older_name_of_clipping() -> None:
    parameter = nn.Parameter(weft.ones(4))
    parameter.grad = weft.full((4,), 3.0)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        norm = nn.utils.clip_grad_norm([parameter], 1.0)
    assert norm.item() == pytest.approx(6.0)
    assert parameter.grad.norm().item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.nn.functional.pad(m.ones(1, 2, 2), [m.tensor([1]), m.tensor(2)]),
        lambda m: m.arange(6).repeat(m.tensor(2)),
        lambda m: m.arange(6).view(m.tensor(2), m.tensor([3])),
        lambda m: m.arange(6).split(m.tensor(4))[1],
        lambda m: m.arange(6).tile((m.tensor(2),)),
    ],
)
def test_sizes_may_be_tensors_of_one_integer(use: Any) -> None:
    mine, theirs = in_both(lambda m: use(m).numpy())
    assert np.array_equal(mine, theirs)


def test_sizes_are_no_tensors_of_several_integers_or_of_floats() -> None:
    for size in ([1, 2], 1.0):
        for library in (weft, torch):
            with pytest.raises((TypeError, RuntimeError)):
                library.nn.functional.pad(library.ones(1, 2, 2), [library.tensor(size), 1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "uint8"])
def test_old_constructors_are_types_of_their_tensors(dtype: str) -> None:
    names = ("FloatTensor", "DoubleTensor", "LongTensor", "BoolTensor", "ByteTensor")
    mine, theirs = in_both(
        lambda m: [
            isinstance(m.ones(2, dtype=getattr(m, dtype)), getattr(m, name)) for name in names
        ]
    )
    assert mine == theirs and sum(mine) == 1
    assert not isinstance(weft.ones(2), weft.cuda.FloatTensor)
    assert not isinstance(3, weft.FloatTensor)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("backends.cudnn", "benchmark"),
        ("cuda.amp", "autocast"),
        ("utils.data.dataloader", "default_collate"),
        ("utils.data.dataset", "Dataset"),
        ("utils.data.sampler", "RandomSampler"),
        ("utils.data.distributed", "DistributedSampler"),
        ("optim.lr_scheduler", "_LRScheduler"),
        ("nn.parallel", "data_parallel"),
    ],
)
def test_modules_are_imported_by_pytorchs_paths(path: str, name: str) -> None:
    for library in ("weft", "torch"):
        assert hasattr(submodule(f"{library}.{path}"), name)


def test_what_is_scripted_stays_what_it_is() -> None:
    model = nn.Linear(2, 2)
    assert weft.jit.script(model) is model and weft.jit.trace(model, weft.ones(2)) is model
    assert not isinstance(model, weft.jit.ScriptModule)

    @weft.jit.unused
    @weft.jit.ignore(drop=True)
    @weft.jit.ignore
    @weft.jit.export
    def twice(x: int) -> int:
        return 2 * x

    assert twice(2) == 4 and not weft.jit.is_scripting() and not weft.jit.is_tracing()
    with pytest.raises(ValueError, match=r"state_dict\(\)"):
        weft.jit.save(model, "model.pt")


def test_the_choice_of_a_kernel_changes_nothing() -> None:
    attend = nn.functional.scaled_dot_product_attention
    x = weft.rand(2, 3, 4)
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH]):
        within = attend(x, x, x)
    assert weft.equal(within, attend(x, x, x))
    with pytest.raises(TypeError), nn.attention.sdpa_kernel("math"):
        pass
    assert {b.name: int(b) for b in nn.attention.SDPBackend}.items() <= {
        name: int(b) for name, b in torch.nn.attention.SDPBackend.__members__.items()
    }.items()


def test_completion_offers_layers_and_not_the_modules_that_they_are_written_in() -> None:
    listed = {name for name in dir(nn) if not name.startswith("_")}
    assert listed >= {*nn.__all__, "parallel"}
    assert {name for name in listed if not hasattr(torch.nn, name)} == set()


def test_fans_by_the_names_that_libraries_of_models_call() -> None:
    for shape in ((3, 4), (8, 4, 3, 3)):
        found = [
            lib.nn.init._calculate_fan_in_and_fan_out(lib.empty(shape)) for lib in (weft, torch)
        ]
        assert found[0] == found[1]
        modes = [
            lib.nn.init._calculate_correct_fan(lib.empty(shape), "fan_out") for lib in (weft, torch)
        ]
        assert modes[0] == modes[1]


@both
def test_hooks_before_loading_by_their_older_name(lib: Any) -> None:
    layer, seen = lib.nn.Linear(1, 1), []
    layer._register_load_state_dict_pre_hook(lambda *given: seen.append(given))
    layer._register_load_state_dict_pre_hook(lambda *given: seen.append(given), with_module=True)
    missing = layer.load_state_dict(layer.state_dict())
    assert [len(given) for given in seen] == [7, 8]
    assert seen[1][0] is layer
    assert isinstance(missing, lib.nn.modules.module._IncompatibleKeys)


@both
def test_versions_and_builds_can_be_asked_for(lib: Any) -> None:
    named = submodule(f"{lib.__name__}.version")
    assert named.__version__ == lib.__version__
    assert named.cuda is None or lib is torch
    assert "CPU" in lib.__config__.show().upper()
    assert "threads" in lib.__config__.parallel_info()


@both
def test_weights_by_address_by_an_older_path(lib: Any, tmp_path: Any) -> None:
    model_zoo = submodule(f"{lib.__name__}.utils.model_zoo")
    assert model_zoo.load_url is lib.hub.load_state_dict_from_url
    assert lib.hub.get_dir().startswith(lib.hub._get_torch_home())


@both
def test_bars_of_progress_by_an_older_path(lib: Any) -> None:
    tqdm = pytest.importorskip("tqdm.auto").tqdm
    named = submodule(f"{lib.__name__}.utils.model_zoo")
    assert issubclass(named.tqdm, tqdm) or issubclass(tqdm, named.tqdm)
    with pytest.raises(AttributeError):
        _ = named.unheard


@both
@pytest.mark.parametrize("layer", ["Linear", "BatchNorm1d"])
def test_loading_may_be_overridden_and_called_by_keywords(lib: Any, layer: str) -> None:
    base = getattr(lib.nn, layer)

    class Renamed(base):  # type: ignore[misc]
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            state_dict[prefix + "bias"] = state_dict.pop(prefix + "old_bias")
            names = ["local_metadata", "strict", "missing_keys", "unexpected_keys", "error_msgs"]
            given = dict(zip(names, rest, strict=True))
            super()._load_from_state_dict(state_dict=state_dict, prefix=prefix, **given)

    sizes = (2, 2) if layer == "Linear" else (2,)
    model, state = Renamed(*sizes), base(*sizes).state_dict()
    state["old_bias"] = state.pop("bias") * 0 + 3
    model.load_state_dict(state)
    assert model.bias.tolist() == [3.0, 3.0]
