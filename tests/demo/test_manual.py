"""The help of the command `weft`: each command has a manual whose examples can be typed, and a shell completes them."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weft.demo import cli, manual


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    (found,) = [
        action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return found.choices


PAGES = {"": manual.ALL} | {name: getattr(manual, name.upper()) for name in commands()}


@pytest.mark.parametrize("name", PAGES)
def test_the_help_of_a_command_is_a_manual(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([name, "--help"] if name else ["--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    parts = ["usage: weft", "options:", "exit status:", "examples:"]
    assert [said.index(part) for part in parts] == sorted(said.index(part) for part in parts)
    first = " ".join(PAGES[name].description.split()).partition(".")[0]
    assert first in " ".join(said.split())


@pytest.mark.parametrize("name", PAGES)
def test_each_argument_has_words(name: str) -> None:
    parser = commands()[name] if name else cli.parser()
    assert [a.dest for a in parser._actions if not a.help and a.dest != "command"] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_manual_are_command_lines(name: str) -> None:
    for line in PAGES[name].examples:
        inner = line.removeprefix('eval "$(').removesuffix(')"').partition(" >")[0]
        program, *arguments = shlex.split(inner)
        options = cli.parser().parse_args(arguments)
        assert program == "weft"
        assert name in ("", options.command)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["weft", "re"], {"replay"}),
        (["weft", "b"], {"board"}),
        (["weft", "board", "--no"], {"--no-browser"}),
        (["weft", "completion", "b"], {"bash"}),
        (["weft", "replay", "bug"], {"bug.weft"}),
        (["weft", "demo", "--model", "bug"], {"bug.weft"}),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_shell_completes_commands_options_and_files(
    words: list[str], offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("shtab")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    assert cli.main(["completion", "bash"]) == 0
    (tmp_path / "weft.bash").write_text(capsys.readouterr().out)
    (tmp_path / "bug.weft").touch()
    program = (
        f"source weft.bash; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_shtab_weft 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(
        [bash, "--norc", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert set(result.stdout.split()) == offered


def test_without_shtab_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 1
    assert "pip install shtab" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "demo --help"])
def test_a_reader_that_has_enough_is_no_error(command: str) -> None:
    """As in `weft doctor | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "weft", *command.split()],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr
