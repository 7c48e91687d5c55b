"""The link checker of the site finds what is broken, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_modules import tool

WHOLE = {
    "index.html": '<p id="here"><a href="sub/a.html#there">a</a><a href="#here">b</a><img src="x.png">',
    "sub/a.html": '<a name="there" href="../index.html">c</a><a href="https://example.org/">d</a>',
    "x.png": "",
}


def site(folder: Path, pages: dict[str, str]) -> Path:
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_whole_site_has_no_faults(tmp_path: Path) -> None:
    assert tool("check_site").main([str(site(tmp_path, WHOLE))]) == 0


@pytest.mark.parametrize(
    "link",
    ["sub/b.html", "sub/a.html#nowhere", "#nowhere", "y.png", "https://no where/", "htp://a.org"],
)
def test_a_broken_link_is_named_with_its_page(
    tmp_path: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {**WHOLE, "sub/c.html": f'<a href="{link.replace("sub/", "")}">'}
    assert tool("check_site").main([str(site(tmp_path, pages))]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in said[1:]] == ["sub/c.html"]
