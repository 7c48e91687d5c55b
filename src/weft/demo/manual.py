"""The words of `weft --help` and of the help of each command, in the order of a man page.

A command's page is its line, a description, its arguments (which `argparse` lists), the exit status, and examples.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

WIDTH = 88
INTERRUPTED = {130: "it was interrupted"}


class Manual(NamedTuple):
    """The page of a command. `status` says what exit statuses other than 2, which is for wrong arguments, mean;
    `examples` are command lines with what each does."""

    line: str
    description: str
    status: dict[int, str]
    examples: dict[str, str]

    def beginning(self) -> str:
        """The words before the arguments."""
        first = f"{self.line[:1].upper()}{self.line[1:]}.\n\n" if self.line else ""
        return first + _paragraphs(self.description)

    def end(self) -> str:
        """The words behind the arguments."""
        status = {2: "the arguments are wrong", **self.status}
        statuses = [f"  {number:<4} {status[number]}" for number in sorted(status)]
        examples = [f"  {line}\n        {words}" for line, words in self.examples.items()]
        return "\n".join(["exit status:", *statuses, "", "examples:", *examples])


ALL = Manual(
    "",
    """
    Weft records what a program computes and runs it when a value is wanted. These commands show that, run programs of
    PyTorch's, and look at what programs have left behind. `weft COMMAND --help` is the manual of a command.
    """,
    {0: "all went well", 1: "what was asked for failed, which is said on standard error"},
    {
        "weft demo --short": "a first look, in a minute",
        "weft run train.py --epochs 3": "your program, on Weft",
        "weft doctor": "why is it slow here?",
    },
)

DEMO = Manual(
    "train a Tree-LSTM on Python's standard library",
    """
    Reads the functions of the standard library as syntax trees, trains a Tree-LSTM to say which package a function
    belongs to, prints loss and accuracy after each epoch, draws the graph of one small tree, and saves the model. At
    the end the model, read from its file, says what it makes of a function. Nothing is downloaded.

    In the folder of results, demo-out by default: tree_lstm.safetensors, the model, and tree_lstm.svg, the drawing.
    """,
    {0: "all went well", 1: "a file cannot be read or written", **INTERRUPTED},
    {
        "weft demo --short": "few functions, three epochs",
        "weft demo --epochs 8 --width 128 --out results": "longer, with a wider model",
        "weft demo --model demo-out/tree_lstm.safetensors --file app.py:main": "what does it make of my function?",
    },
)

REPLAY = Manual(
    "run a capsule of weft.debug.capture again",
    """
    A capsule holds the operations that a block of a program ran, the values that it read and digests of its results,
    and no code. Here they run again, and each result is compared with its digest, bit by bit.
    """,
    {
        0: "all values have the same bits as when they were captured",
        1: "some have others, or an operation raised",
        2: "the file is refused, or the arguments are wrong",
    },
    {
        "weft replay bug.weft": "is it the same here?",
        "weft replay bug.weft --reduce small.weft": "the fewest operations that show the fault",
        "weft replay bug.weft --to-python test_bug.py": "the same as a Python test",
    },
)

DOCTOR = Manual(
    "what Weft runs on, and what makes it slow here",
    """
    Prints the processor and its vector units, the memory, threads, caches of kernels, versions of libraries, and
    settings by environment variables; then what of it makes programs slower than they need to be, and what to do.
    """,
    {0: "always"},
    {"weft doctor": "all of it", "weft doctor > report.txt": "for a report of a fault"},
)

RUN = Manual(
    "run a program that imports torch on Weft",
    """
    Runs a Python file, or with -m a module, as Python would, where `torch` and packages that are built on it are
    Weft's. All arguments behind the program's name are the program's.
    """,
    {0: "the program ended", 1: "it raised an error, which is printed with its traceback"},
    {
        "weft run train.py --epochs 3": "a file with its arguments",
        "weft run -m my_package.train": "a module",
    },
)

BOARD = Manual(
    "show a saved run in the browser",
    """
    Serves the page of a run that `weft.board` has watched and saved: the graph of its steps, losses and norms, memory
    by line. The page is served to this machine alone, until Ctrl-C.
    """,
    {0: "it was ended by Ctrl-C", 1: "the file is no run, or cannot be read"},
    {
        "weft board run.weft": "open it",
        "weft board run.weft --port 9000 --no-browser": "only print the address",
    },
)

COMPLETION = Manual(
    "print a script that completes commands in a shell",
    """
    The shell that reads the script completes the commands, their options and names of files when Tab is pressed. It is
    made by shtab from the same description as this help: pip install shtab.
    """,
    {0: "the script is on standard output", 1: "shtab is not installed"},
    {
        'eval "$(weft completion bash)"': "in this shell; in ~/.bashrc: in each",
        "weft completion zsh > ~/.zfunc/_weft": "a folder of $fpath",
    },
)


def _paragraphs(text: str) -> str:
    """Paragraphs, each filled anew."""
    paragraphs = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(textwrap.fill(" ".join(each.split()), WIDTH) for each in paragraphs)
