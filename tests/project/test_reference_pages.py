"""The reference has an entry for each public name, once, and the site a page for each document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from tool_modules import tool

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"^\.\. auto\w+:: (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each page by its name."""
    folder = tmp_path_factory.mktemp("reference")
    tool("reference_pages").write(folder)
    return {path.stem: path.read_text() for path in folder.glob("*.rst")}


def entries(page: str) -> list[str]:
    return ENTRY.findall(page)


@pytest.mark.parametrize(
    "name", ["matmul", "set_memory_budget", "map", "Tensor", "save", "no_grad"]
)
def test_names_at_the_root_have_an_entry(pages: dict[str, str], name: str) -> None:
    assert entries(pages["weft"]).count(name) == 1


def test_layers_and_optimizers_have_entries(pages: dict[str, str]) -> None:
    layers = {name for name in weft.nn.__all__ if isinstance(getattr(weft.nn, name), type)}
    assert layers - set(entries(pages["weft.nn"])) - set(entries(pages["weft"])) == set()
    assert {"SGD", "AdamW", "LBFGS"} <= set(entries(pages["weft.optim"]))


def test_each_method_of_a_tensor_has_an_entry(pages: dict[str, str]) -> None:
    shown = {entry.removeprefix("Tensor.") for entry in entries(pages["weft.Tensor"])}
    assert shown == {name for name in dir(weft.Tensor) if not name.startswith("_")}


def test_no_entry_stands_twice_on_a_page(pages: dict[str, str]) -> None:
    twice = {
        name: [entry for entry in entries(page) if entries(page).count(entry) > 1]
        for name, page in pages.items()
    }
    assert {name: found for name, found in twice.items() if found} == {}


def test_names_for_other_packages_are_left_out(pages: dict[str, str]) -> None:
    assert "_VF" not in entries(pages["weft"])
    homes = [inspect_home(name) for name in entries(pages["weft"])]
    assert [home for home in homes if home.startswith("weft.compat")] == []


def inspect_home(name: str) -> str:
    item = getattr(weft, name)
    return str(getattr(getattr(item, "__wrapped__", item), "__module__", ""))


def test_each_document_is_on_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = set(re.findall(r"^([\w/]+)$", index, re.MULTILINE))
    documents = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
    names = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in documents}
    assert names - listed == {"index"}
    assert "gallery/index" in listed


def test_methods_stand_below_their_class_and_once(pages: dict[str, str]) -> None:
    """What a class has from a public base is described there; from a private one, below itself."""
    members = re.findall(
        r"^ {3}\.\. auto(?:method|property|attribute):: (\S+)$", pages["weft.nn"], re.M
    )
    assert {"Module.register_forward_hook", "Linear.forward", "ReflectionPad1d.forward"} <= {
        *members
    }
    assert "Linear.register_forward_hook" not in members
    assert len(members) == len({*members})
    assert (
        "   .. automethod:: Normal.log_prob" not in pages["weft.distributions"]
    )  # has no words of its own
    assert "   .. automethod:: Distribution.log_prob" in pages["weft.distributions"]
