"""`utils.tensorboard` writes what PyTorch's does: the same events, message by message."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import submodule, torch

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _reported(lib: Any, writer: Any) -> None:
    """Something of each kind."""
    numbers = np.random.RandomState(0)
    x = lib.tensor(np.round(numbers.randn(40) * 64).astype(np.float32) / 64)  # sums are exact
    writer.add_scalar("loss", x.mean(), 3)
    writer.add_scalar("new", 0.5, 4, new_style=True)
    writer.add_scalar("wide", 1 / 3, np.int64(4), new_style=True, double_precision=True)
    writer.add_scalars("both", {"a": 1.0, "b": x[0]}, 5)
    writer.add_histogram("h", x, 1)
    writer.add_histogram("few", x, 1, bins=30, max_bins=7)
    writer.add_histogram("auto", np.arange(20.0), 1, bins="auto")
    writer.add_histogram_raw("raw", 0.0, 2.0, 3, 4.0, 5.0, [1.0, 2.0], [1, 2], 1)
    for dtype in ("float64", "int64", "bool", "complex64"):
        writer.add_tensor(dtype, (x[:6].reshape(2, 3) * 4).abs().to(getattr(lib, dtype)), 2)
    writer.add_text("t", "**word** \u00e9", 1)
    labels, chances = numbers.randint(0, 2, 50), numbers.rand(50)
    writer.add_pr_curve("pr", lib.tensor(labels), lib.tensor(chances), 1, num_thresholds=20)
    writer.add_pr_curve("weighted", labels, chances, 1, weights=numbers.rand(50))
    writer.add_custom_scalars(
        {"c": {"lines": ["Multiline", ["a", "b"]], "m": ["Margin", list("abc")]}}
    )
    writer.add_mesh(
        "mesh", x[:12].reshape(1, 4, 3), faces=lib.tensor([[[0, 1, 2]]]), config_dict={"k": 1}
    )
    writer.add_audio("s", x / 4, 2, sample_rate=8000)
    writer.add_image("i", x[:27].reshape(3, 3, 3).sigmoid(), 1)
    writer.add_image("grey", numbers.randint(0, 255, (4, 5)).astype(np.uint8), 1, dataformats="HW")
    writer.add_images("many", x.sigmoid().reshape(10, 1, 2, 2), 1)
    box = lib.tensor([[2.0, 2.0, 9.0, 9.0]])
    writer.add_image_with_boxes("box", x[0].sigmoid().expand(3, 24, 24), box, 1, labels=["cat"])
    hyper = {"lr": 0.1, "n": 2, "name": "adam", "on": True, "none": None, "t": lib.tensor([2.0])}
    writer.add_hparams(hyper, {"best": 0.5}, {"name": ["adam", "sgd"], "lr": [0.1, 0.2]}, "run", 7)
    points = x[:12].reshape(4, 3)
    writer.add_embedding(points, [[1, "a"]] * 4, global_step=1, metadata_header=["n", "w"])
    writer.add_embedding(points, list("abcd"), x[:16].sigmoid().reshape(4, 1, 2, 2), tag="a/b")


def _events(folder: Path) -> dict[str, list[Any]]:
    """The summaries of each file, by its folder, as text without times."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    found: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("events*")):
        events = [(e.step, str(e.summary)) for e in LegacyEventFileLoader(str(path)).Load()]
        found[str(path.parent.relative_to(folder))] = events[1:]  # the first has the version
    return found


@pytest.fixture
def theirs() -> Any:
    pytest.importorskip("PIL")
    return submodule("torch.utils.tensorboard")


def test_events_are_pytorchs(tmp_path: Path, theirs: Any) -> None:
    from weft.utils import tensorboard as ours

    for name, lib, module in (("ours", weft, ours), ("theirs", torch, theirs)):
        with module.SummaryWriter(tmp_path / name, purge_step=2) as writer:
            _reported(lib, writer)
    mine, other = _events(tmp_path / "ours"), _events(tmp_path / "theirs")
    assert mine.keys() == other.keys()
    for place, events in mine.items():
        assert events == other[place], place
    for path in (tmp_path / "theirs").rglob("*"):
        if path.suffix in (".tsv", ".pbtxt", ".png"):
            assert (
                tmp_path / "ours" / path.relative_to(tmp_path / "theirs")
            ).read_bytes() == path.read_bytes()


def test_narrow_numbers_can_be_read(tmp_path: Path) -> None:
    """PyTorch writes float16 as 32 bits, and uint8 where TensorBoard doesn't look."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    from weft.utils.tensorboard import SummaryWriter

    x = weft.tensor([[7.0625, 1.625]])
    with SummaryWriter(tmp_path) as writer:
        writer.add_tensor("half", x.half())
        writer.add_tensor("byte", x.to(weft.uint8))
        writer.add_tensor("brain", x.bfloat16())
    (path,) = tmp_path.iterdir()
    events = list(LegacyEventFileLoader(str(path)).Load())[1:]
    half, byte, brain = (event.summary.value[0].tensor for event in events)
    assert np.array_equal(make_ndarray(half), x.half().numpy())
    assert np.array_equal(make_ndarray(byte), [[7, 1]])
    assert list(brain.half_val) == [0x40E2, 0x3FD0]


def test_a_graph_has_the_modules_and_what_they_pass_on(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    from weft.utils.tensorboard import SummaryWriter

    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.Linear(4, 2))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, weft.ones(1, 3))
    (path,) = tmp_path.iterdir()
    (told,) = [e.graph_def for e in LegacyEventFileLoader(str(path)).Load() if e.graph_def]
    nodes = [(node.name, node.op, list(node.input)) for node in GraphDef.FromString(told).node]
    assert nodes == [
        ("input/0", "IO Node", []),
        ("Sequential/0", "Linear", ["input/0"]),
        ("Sequential/1", "ReLU", ["Sequential/0"]),
        ("Sequential/2", "Linear", ["Sequential/1"]),
        ("output/0", "IO Node", ["Sequential/2"]),
    ]


def test_a_figure_and_a_film_are_pictures(tmp_path: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    pytest.importorskip("PIL")
    from weft.utils.tensorboard import pictures, summary

    drawn = figure.Figure(figsize=(1, 2), dpi=10)
    assert pictures.figure_to_image(drawn).shape == (3, 20, 10)
    film = summary.video("v", weft.rand(3, 5, 3, 4, 6))
    assert (film.value[0].image.height, film.value[0].image.width) == (4, 24)


def test_wrong_calls_say_what_is_wrong(tmp_path: Path) -> None:
    from weft.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="value should be one of int, float, str, bool"):
            writer.add_hparams({"a": [1]}, {})
        with pytest.raises(ValueError, match="The input has no element"):
            writer.add_histogram("h", np.zeros(0))
        with pytest.raises(ValueError, match=r"len\(bucket_limits\) != len\(bucket_counts\)"):
            writer.add_histogram_raw("h", 0, 1, 2, 3, 4, [1], [1, 2])


def test_the_messages_that_summaries_are_made_of_are_pytorchs() -> None:
    mine = importlib.import_module("weft.utils.tensorboard.summary")
    theirs = submodule("torch.utils.tensorboard.summary")
    values = np.round(np.random.RandomState(1).randn(50) * 64) / 64
    for given in ((values, 9), (values, "auto", 3)):
        assert mine.make_histogram(*given) == theirs.make_histogram(*given)
    shown = np.arange(24 * 24 * 3, dtype=np.uint8).reshape(24, 24, 3)
    boxes = np.array([[2.0, 2.0, 9.0, 9.0]])
    assert mine.make_image(shown, 2, boxes, ["cat"]) == theirs.make_image(shown, 2, boxes, ["cat"])
    picture = pytest.importorskip("PIL.Image").fromarray
    first, second = (lib.draw_boxes(picture(shown.copy()), boxes) for lib in (mine, theirs))
    assert first.tobytes() == second.tobytes() != shown.tobytes()
    assert mine.half_to_int(1.5) == theirs.half_to_int(1.5)
    assert mine.int_to_half(1_069_547_520) == 1.5
