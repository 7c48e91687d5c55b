"""`weft.hub` calls what the `hubconf.py` of a folder has, as PyTorch's does, and fetches nothing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import torch

HUBCONF = '''
from beside_hubconf import scaled

def doubled(value, *, more=0):
    """Two times a value."""
    return scaled(value, 2) + more

def _private():
    pass

number = 7
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of hubs with the repository `owner/name` in it, and its branch `branch`."""
    repository = tmp_path / "owner_name_branch"
    repository.mkdir()
    (repository / "hubconf.py").write_text(HUBCONF)
    (repository / "beside_hubconf.py").write_text("def scaled(value, by):\n    return value * by\n")
    return tmp_path


@pytest.mark.parametrize("name", ["list", "help", "load"])
def test_parameters_are_those_of_pytorch(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(lib.hub, name)) for lib in (weft, torch))
    assert list(ours.parameters) == list(theirs.parameters)


@pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
def test_functions_of_a_repository_that_is_there(
    lib: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, where = lib.hub, "owner/name:branch"
    monkeypatch.setattr(hub, "get_dir", lambda: str(folder))
    trusted = {"skip_validation": True, "trust_repo": True}
    assert hub.list(where, **trusted) == ["doubled", "scaled"]
    assert hub.help(where, "doubled", **trusted) == "Two times a value."
    assert hub.load(where, "doubled", 3, more=1, **trusted) == 7


@pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
def test_functions_of_a_folder(lib: Any, folder: Path) -> None:
    hub, where = lib.hub, str(folder / "owner_name_branch")
    assert hub.load(where, "doubled", 3, source="local", more=1) == 7
    assert hub.load(where, model="doubled", value=3, source="local") == 6
    with pytest.raises(ValueError, match="source"):
        hub.load(where, "doubled", source="elsewhere")


@pytest.mark.parametrize("model", ["absent", "number"])
def test_a_function_that_is_not_there(folder: Path, model: str) -> None:
    with pytest.raises(ValueError, match=f"no function '{model}'"):
        weft.hub.load(str(folder / "owner_name_branch"), model, source="local")


def test_a_repository_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.hub, "get_dir", lambda: str(folder))
    for where, place in (("owner/name", "owner_name_main"), ("other/x:y", "other_x_y")):
        with pytest.raises(FileNotFoundError, match="not fetched over the network") as refused:
            weft.hub.load(where, "doubled", 1)
        assert str(folder / place / "hubconf.py") in str(refused.value)
