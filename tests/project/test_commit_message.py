"""Subjects of commits have the form `area: imperative`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_modules import tool

ROOT = Path(__file__).resolve().parents[2]

COMMITS = tool("commit_message")


@pytest.mark.parametrize(
    "message",
    [
        "optim: check betas at the call\n",
        "tests/nn: compare hooks with PyTorch\n\nWhy it is so.\n",
        "nn, optim: pass lists on\n# a comment of git's\n",
        "Merge branch 'main'\n",
        'Revert "optim: check betas at the call"\n',
        "fixup! optim: check betas at the call\n",
        "runtime: need no lock for one thread\n",
        "docs: " + "x" * (72 - 6) + "\n",
    ],
)
def test_subjects_of_the_form_pass(message: str, tmp_path: Path) -> None:
    (tmp_path / "message").write_text(message)
    assert COMMITS.main([str(tmp_path / "message")]) == 0


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "expected 'area: imperative'"),
        ("Format\n", "expected 'area: imperative'"),
        ("Optim: check betas\n", "expected 'area: imperative'"),
        ("optim:check betas\n", "expected 'area: imperative'"),
        ("optim: betas are Checked at the call.\n", "full stop"),
        ("optim: Check betas\n", "small letters"),
        ("optim: checks betas\n", "no imperative"),
        ("optim: checked betas\n", "no imperative"),
        ("optim: checking betas\n", "no imperative"),
        ("docs: " + "x" * (73 - 6) + "\n", "73 characters"),
        ("optim: check betas\nat the call\n", "second line"),
    ],
)
def test_other_subjects_are_refused(
    message: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "message").write_text(message)
    assert COMMITS.main([str(tmp_path / "message")]) == 1
    assert fault in capsys.readouterr().err
