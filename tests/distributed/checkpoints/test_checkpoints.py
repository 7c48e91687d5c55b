"""Checkpoints of several ranks: read on other numbers of them and as one file, and complete or not there at all."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from weft.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner, format_utils
from weft.distributed.checkpoint.planner import WriteItemType

import weft
from ranks import agree, needs_mpi, run
from weft.distributed import checkpoint

PROGRAM = "checkpoints.py"
API_PARTS = [
    *("in_background", "folders", "trees", "stages", "without_a_state", "submodules"),
    *("from_the_first", "states_of_optimizers", "compiled", "stateful"),
]
Results = Callable[[str, str, int], list[Any]]
WHOLE = "2 True 1 {'sizes': [1, 2], 'none': {}}"


def said(printed: str) -> dict[int, str]:
    """What each rank printed."""
    found = re.findall(r"rank (\d) *: (.*)", printed)
    return {int(rank): text for rank, text in found}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that two ranks wrote, which no test changes."""
    place = tmp_path_factory.mktemp("checkpoints") / "last"
    assert said(run(2, PROGRAM, "save", place)) == {0: "2 True", 1: "2 True"}
    return place


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(written, tmp_path / "copy"))


@needs_mpi
def test_other_numbers_of_ranks_read_what_two_wrote(folder: Path) -> None:
    assert said(run(3, PROGRAM, "load", folder)) == dict.fromkeys(range(3), WHOLE)
    names = sorted(path.name.partition("-")[2] for path in folder.iterdir())
    assert names == ["", "0.safetensors", "1.safetensors", "values.safetensors"]


@needs_mpi
def test_one_process_reads_it_and_a_file_becomes_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    format_utils.dcp_to_torch_save(folder, tmp_path / "one.safetensors")
    whole = weft.load(tmp_path / "one.safetensors")
    assert whole["epoch"] == 2 and whole["model"]["0.weight"].shape == (600, 512)
    format_utils.torch_save_to_dcp(tmp_path / "one.safetensors", tmp_path / "again")
    for place in (tmp_path / "again", tmp_path / "one.safetensors"):
        state = {"model": {"0.weight": weft.zeros(600, 512)}, "epoch": 0}
        checkpoint.load(state, checkpoint_id=place)
        assert state["epoch"] == 2
        assert (state["model"]["0.weight"] == whole["model"]["0.weight"]).all()


def test_files_that_a_load_does_not_need_are_not_read(tmp_path: Path) -> None:
    state = {"small": weft.arange(3), "half": weft.rand(4).bfloat16(), "none": weft.zeros(0, 2)}
    checkpoint.save(state, checkpoint_id=tmp_path)
    found = {name: weft.zeros_like(value) for name, value in state.items()}
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert all((found[name] == value).all() for name, value in state.items())
    (data,) = tmp_path.glob("*-0.safetensors")
    content = data.read_bytes()
    data.write_bytes(content[:-3])
    with pytest.raises(weft.errors.CheckpointError, match="fetch the file again"):
        checkpoint.load({"small": weft.zeros(3)}, checkpoint_id=tmp_path)
    data.unlink()
    with pytest.raises(FileNotFoundError):
        checkpoint.load({"small": weft.zeros(3)}, checkpoint_id=tmp_path)
    checkpoint.load({}, checkpoint_id=tmp_path)


@needs_mpi
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("kill", r"gone are ranks \[1\]|rank 1 is gone"),
        ("kill the first", r"gone are ranks \[0\]|rank 0 is gone"),
        ("fail", "rank 1: No space left on device"),
        ("full", r"rank 1: .*File too large"),
    ],
)
def test_a_save_that_does_not_end_leaves_the_checkpoint_before(
    folder: Path, how: str, reason: str
) -> None:
    before = {path.name for path in folder.iterdir()}
    printed = run(2, PROGRAM, how, folder, status=None)
    assert re.search(reason, printed), printed
    assert "no error" not in printed
    made = {path.name for path in folder.iterdir()} - before
    left = [name for name in made if name.endswith(".tmp")]
    assert left == [] or how == "kill"  # a rank that is killed removes nothing; the next save does
    state = {"epoch": 0, "model": {"0.weight": weft.zeros(600, 512)}}
    checkpoint.load(state, checkpoint_id=folder)
    assert state["epoch"] == 2 and bool(state["model"]["0.weight"].any())


SMALL = "mount -t tmpfs -o size=6m none"  # room for one checkpoint of two


def can_mount(folder: Path) -> bool:
    """True if this process may have a disk of its own."""
    command = ["unshare", "-m", "sh", "-c", f"{SMALL} {folder}"]
    return (
        bool(shutil.which("unshare"))
        and subprocess.run(command, capture_output=True).returncode == 0
    )


@needs_mpi
def test_a_disk_that_is_full_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount a small disk (unshare -m)")
    within = ("unshare", "-m", "sh", "-c", f'{SMALL} {tmp_path} && exec "$@"', "sh")
    found = said(run(2, PROGRAM, "disk", tmp_path / "last", within=within, status=None))
    assert len(found) == 2
    for text in found.values():
        assert re.match(r"epoch 2, left \[\]: .*(No space left on device|is not complete)", text), (
            found
        )


@needs_mpi
@pytest.mark.parametrize("part", API_PARTS)
def test_programs_write_and_read_as_with_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "checkpoint_api.py", 2) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert agree(own[part], other[part]), (own[part], other[part])


def test_a_tensor_of_another_shape_is_refused_where_it_could_be_broadcast(tmp_path: Path) -> None:
    checkpoint.save({"a": weft.ones(1)}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="Size mismatch between saved .*1.* for a"):
        checkpoint.load({"a": weft.zeros(3)}, checkpoint_id=tmp_path)


def test_a_folder_of_the_format_before_is_read(tmp_path: Path) -> None:
    checkpoint.save({"a": {"b": weft.ones(3)}, "n": 2}, checkpoint_id=tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("distributed-3", "distributed-2"))
    state = {"a": {"b": weft.zeros(3)}, "n": 0}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert (state["a"]["b"].tolist(), state["n"]) == ([1.0] * 3, 2)


def test_one_process_needs_no_group(tmp_path: Path) -> None:
    model = weft.nn.Linear(2, 2)
    before = model.weight.tolist()
    checkpoint.save({"model": model}, checkpoint_id=tmp_path / "c")
    with weft.no_grad():
        model.weight.zero_()
    checkpoint.load({"model": model}, checkpoint_id=tmp_path / "c")
    assert model.weight.tolist() == before


def test_words_for_what_cannot_be(tmp_path: Path) -> None:
    checkpoint.save({"a": weft.ones(1)}, checkpoint_id=tmp_path / "c")
    with pytest.raises(RuntimeError, match="the checkpoint has no entry b"):
        checkpoint.load({"b": weft.ones(1)}, checkpoint_id=tmp_path / "c")
    with pytest.raises(ValueError, match="pass checkpoint_id='checkpoint'"):
        checkpoint.save({"a": 1})
    with pytest.raises(ValueError, match="a checkpoint has no place for the key None"):
        checkpoint.save({None: 1}, checkpoint_id=tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        checkpoint.load({"a": 1}, checkpoint_id=tmp_path)


def test_planners_leave_alone_what_is_not_there_and_metadata_tells_what_is(tmp_path: Path) -> None:
    saved = {"model": {"w": weft.ones(2, 3, dtype=weft.float64), "s": weft.tensor(2)}, "step": 7}
    checkpoint.save(saved, checkpoint_id=tmp_path, planner=checkpoint.DefaultSavePlanner())
    wanted = {
        "model": {"w": weft.zeros(2, 3, dtype=weft.float64), "new": weft.tensor(4)},
        "step": 0,
    }
    with pytest.raises(RuntimeError, match="the checkpoint has no entry model.new"):
        checkpoint.load(wanted, checkpoint_id=tmp_path)
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load(wanted, checkpoint_id=tmp_path, planner=planner)
    assert wanted["step"] == 7 and wanted["model"]["new"].item() == 4
    assert wanted["model"]["w"].tolist() == [[1.0] * 3] * 2

    metadata = checkpoint.FileSystemReader(tmp_path).read_metadata()
    entries = metadata.state_dict_metadata
    assert sorted(entries) == ["model.s", "model.w", "step"]
    assert metadata.planner_data["model.w"] == ("model", "w")
    assert entries["model.w"].size == (2, 3)
    assert entries["model.w"].properties.dtype is weft.float64
    assert [(c.offsets, c.sizes) for c in entries["model.w"].chunks] == [((0, 0), (2, 3))]
    assert isinstance(entries["step"], checkpoint.BytesStorageMetadata)


class Renaming(DefaultSavePlanner):
    """Writes the entries under other names, and tensors of float32 as float16."""

    def set_up_planner(
        self, state_dict: Any, storage_meta: object = None, is_coordinator: bool = False
    ) -> None:
        super().set_up_planner(
            {f"foo_{key}": value for key, value in state_dict.items()}, storage_meta, is_coordinator
        )

    def resolve_data(self, write_item: Any) -> Any:
        value = super().resolve_data(write_item)
        return value if write_item.type == WriteItemType.BYTE_IO else value.half()


class Renamed(DefaultLoadPlanner):
    """Reads them from there."""

    def set_up_planner(
        self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        assert "foo_model.w" in metadata.state_dict_metadata and is_coordinator
        super().set_up_planner({f"foo_{key}": value for key, value in state_dict.items()}, metadata)


def test_planners_of_programs_rename_and_convert_what_is_written(tmp_path: Path) -> None:
    state = {"model": {"w": weft.full((2, 3), 1.5)}, "step": 7}
    checkpoint.save(state, checkpoint_id=tmp_path, planner=Renaming())
    entries = checkpoint.FileSystemReader(tmp_path).read_metadata().state_dict_metadata
    assert sorted(entries) == ["foo_model.w", "foo_step"]
    assert entries["foo_model.w"].properties.dtype is weft.float16
    wanted = {"model": {"w": weft.zeros(2, 3)}}
    checkpoint.load(wanted, checkpoint_id=tmp_path, planner=Renamed())
    assert wanted["model"]["w"].tolist() == [[1.5] * 3] * 2


def test_planners_that_say_who_writes_what_are_refused(tmp_path: Path) -> None:
    class Placing(DefaultSavePlanner):
        def create_global_plan(self, all_plans: Any) -> Any:
            return all_plans

    state = {"a": weft.ones(2)}
    with pytest.raises(NotImplementedError, match="create_global_plan does has no effect here"):
        checkpoint.save(state, checkpoint_id=tmp_path, planner=Placing())
    with pytest.raises(NotImplementedError, match="such a planner has no effect here"):
        checkpoint.load(state, checkpoint_id=tmp_path, planner=Renaming())
    assert not list(tmp_path.iterdir())
