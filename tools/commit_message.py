"""A commit's subject line, checked: `python tools/commit_message.py FILE` is the hook `commit-msg` of pre-commit.

In: the file with the message that git is about to use. Out: nothing, or what the subject line should be.
The form is `area: imperative`, at most 72 characters, and an empty line before the body.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

LONGEST = 72
# What git writes by itself, and what a rebase melts into another commit.
_LEFT_ALONE = re.compile(r"Merge |Revert \"|(?:fixup|squash|amend)! ")
_SUBJECT = re.compile(r"(?P<area>[a-z0-9_][\w./-]*(?:, [\w./-]+)*): (?P<text>\S.*)")
_SCISSORS = "# ------------------------ >8 ------------------------"
# Imperatives that end as other forms of a verb do.
_IMPERATIVES = {"alias", "bias", "canvas", "focus", "embed", "shed", "shred", "bring", "string"}


def faults(message: str) -> Iterator[str]:
    """What is wrong with a message."""
    kept = message.partition(_SCISSORS)[0].splitlines()
    lines = [line for line in kept if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if _LEFT_ALONE.match(subject):
        return
    if len(subject) > LONGEST:
        yield f"the subject has {len(subject)} characters; at most {LONGEST}, the rest goes into the body"
    if lines[1:] and lines[1].strip():
        yield "the second line is not empty"
    yield from _faults_of(subject)


def _faults_of(subject: str) -> Iterator[str]:
    found = _SUBJECT.fullmatch(subject)
    if found is None:
        yield f"expected 'area: imperative', as in 'optim: check betas at the call'; got {subject!r}"
        return
    text = found["text"]
    verb = text.split()[0]
    if not verb.islower() or not verb.isalpha():
        yield f"a verb in small letters comes behind the area; got {verb!r}"
    elif not is_imperative(verb):
        yield f"{verb!r} is no imperative: say what the commit does, as in 'add', not 'added' or 'adds'"
    if text.endswith("."):
        yield "the subject ends without a full stop"


def is_imperative(verb: str) -> bool:
    """Whether a word can be one, by its ending: not `adds`, `added`, `adding`."""
    if verb in _IMPERATIVES:
        return True
    return not re.search(r"[^s]s$|[^e]ed$|ing$", verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the file that is named; the exit status."""
    [path] = sys.argv[1:] if arguments is None else arguments
    found = list(faults(Path(path).read_text()))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
