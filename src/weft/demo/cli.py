"""The command `weft`: `weft demo` trains on the standard library and shows what the framework did; `weft run train.py`
runs a program that imports `torch` on Weft; `weft replay bug.weft` runs a capsule again, `weft board run.weft` shows a
saved run in the browser, `weft completion bash` makes the shell complete all that. `manual` has the words of the help.

The demo prints the course of the training, the recorded graph of one small tree as text and as a drawing, and the
loaded model's opinion of a function, and saves the model.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import weft
from weft.debug.capsules import command as replay
from weft.demo import completion, manual
from weft.demo.model import TreeLSTM
from weft.demo.syntax_trees import Dataset, Function, Tree, find_function, load_functions
from weft.demo.train import Settings, Trainer

MODEL_FILE, DRAWING_FILE = "tree_lstm.safetensors", "tree_lstm.svg"
AS_WRITTEN = argparse.RawDescriptionHelpFormatter
SMALL_TREE = 12
SHOWN_LINES = 20  # of the printed graph, before the last one
SHORT_EPOCHS, SHORT_LIMIT = 3, 800


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    with read_or_left():
        options = parser().parse_args(arguments)
        status = 0 if options.command == "run" else answer(options)
    return run(options) if options.command == "run" else status


@contextmanager
def read_or_left() -> Iterator[None]:
    """End quietly where nobody reads the output any more, as in `weft doctor | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def answer(options: argparse.Namespace) -> int:
    """Run a command of the package's own; its exit status."""
    if options.command == "doctor":
        print(weft.doctor())
        return 0
    if options.command == "replay":
        return replay.run(options)
    if options.command == "board":
        return show_run(options)
    if options.command == "completion":
        return completion.run(options, parser())
    try:
        demo(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"weft demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nweft demo: interrupted", file=sys.stderr)
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    summary = (weft.__doc__ or "").partition("\n")[0]  # none under -OO
    page = manual.ALL._replace(line=summary.rstrip("."))
    top = argparse.ArgumentParser(
        prog="weft", description=page.beginning(), epilog=page.end(), formatter_class=AS_WRITTEN
    )
    top.add_argument("--version", action="version", version=f"weft {weft.__version__}")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )
    add_demo(add_command(commands, "demo", manual.DEMO))
    program = add_command(commands, "run", manual.RUN)
    program.add_argument("-m", action="store_true", dest="module", help="it is a module's name")
    program.add_argument("program", help="a file, or with -m a module")
    program.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is called with")
    add_command(commands, "doctor", manual.DOCTOR)
    board = add_command(commands, "board", manual.BOARD)
    board.add_argument("file", type=Path, help="what board.save wrote: a run file or a page")
    board.add_argument("--port", type=int, help="default 8275, or the next one that is free")
    board.add_argument("--no-browser", action="store_true", help="only print the address")
    replay.add_arguments(add_command(commands, "replay", manual.REPLAY))
    completion.add_arguments(add_command(commands, "completion", manual.COMPLETION))
    return top


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, page: manual.Manual
) -> argparse.ArgumentParser:
    """A command with its manual, and no arguments yet."""
    return commands.add_parser(
        name,
        help=page.line,
        description=page.beginning(),
        epilog=page.end(),
        formatter_class=AS_WRITTEN,
    )


def add_demo(demo: argparse.ArgumentParser) -> None:
    """The arguments of the demo."""
    defaults = Settings()
    demo.add_argument(
        "--epochs", type=positive, help=f"passes over the data; default {defaults.epochs}"
    )
    width = f"of the hidden state; default {defaults.width}"
    demo.add_argument("--width", type=positive, default=defaults.width, help=width)
    seed = f"of random numbers; default {defaults.seed}"
    demo.add_argument("--seed", type=int, default=defaults.seed, help=seed)
    demo.add_argument("--short", action="store_true", help="few functions and epochs: a quick look")
    demo.add_argument("--file", metavar="FILE.py:NAME", help="a function to classify at the end")
    demo.add_argument(
        "--model", metavar="FILE", type=Path, help="load this saved model instead of training"
    )
    out = "folder for the results; default demo-out"
    demo.add_argument("--out", type=Path, default=Path("demo-out"), help=out)


def run(options: argparse.Namespace) -> int:
    """A program of PyTorch's on Weft; what it raises is not caught."""
    from weft import as_torch

    as_torch.run(options.program, options.arguments, options.module)
    return 0


def show_run(options: argparse.Namespace) -> int:
    """A saved run in the browser; the exit status."""
    from weft.board.viewer import view

    try:
        return view(options.file, options.port, not options.no_browser)
    except (OSError, ValueError) as error:
        print(f"weft board: {error}", file=sys.stderr)
        return 1


def positive(text: str) -> int:
    """A command line number of at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def demo(options: argparse.Namespace) -> None:
    """The main job from end to end."""
    target = find_function(options.file) if options.file else None
    path = Path(options.model) if options.model else train_and_save(options)
    model, packages = load_model(path)
    print(f"loaded  {path}")
    classify(model, packages, target or default_target())


def train_and_save(options: argparse.Namespace) -> Path:
    """Train, report, show a graph, save: the file of the model."""
    options.out.mkdir(parents=True, exist_ok=True)  # what cannot be written is said at once
    data = load_functions(limit=SHORT_LIMIT if options.short else None)
    describe(data)
    epochs = options.epochs or (SHORT_EPOCHS if options.short else Settings().epochs)
    trainer = Trainer(data, Settings(epochs=epochs, width=options.width, seed=options.seed))
    started = time.perf_counter()
    for epoch in trainer.run():
        print(
            f"epoch {epoch.number}  loss {epoch.loss:.4f}  accuracy {epoch.accuracy:.4f}  "
            f"held out {epoch.held_out:.4f}  {epoch.seconds:.1f} s",
            flush=True,
        )
    baseline = data.majority_baseline()
    print(f"held-out accuracy {epoch.held_out:.4f}, majority baseline {baseline:.4f}")
    print(f"trained in {time.perf_counter() - started:.1f} s")
    show_graph(trainer.model, smallest(data.train).tree, options.out / DRAWING_FILE)
    path: Path = options.out / MODEL_FILE
    save_model(trainer.model, data, path)
    print(f"saved   {path}")
    return path


def describe(data: Dataset) -> None:
    """Print the size of the training and test data."""
    nodes = sum(function.tree.size() for function in data.train)
    print(
        f"{len(data.train)} functions to learn from ({nodes} nodes), {len(data.held_out)} held "
        f"out, from other files; {len(data.packages)} packages: {', '.join(data.packages)}"
    )


def smallest(functions: Sequence[Function]) -> Function:
    """The first of the functions with the smallest tree above a trivial size."""
    return min(functions, key=lambda f: (f.tree.size() < SMALL_TREE, f.tree.size()))


def show_graph(model: TreeLSTM, tree: Tree, path: Path) -> None:
    """Print the graph that one tree records and draw it."""
    from weft import debug

    model.eval()
    scores = model(tree)
    print(f"\nThe graph recorded for a tree of {tree.size()} nodes, before it runs:")
    lines = debug.graph_text(scores).splitlines()
    head, tail = lines[:SHOWN_LINES], lines[SHOWN_LINES:]
    print("\n".join([*head, *([f"... {len(tail) - 1} more"] if len(tail) > 1 else []), *tail[-1:]]))
    debug.draw(scores, path)
    print(f"drawn   {path}")


def save_model(model: TreeLSTM, data: Dataset, path: Path) -> None:
    """Weights, labels and packages in one file."""
    content = {
        "model": model.state_dict(),
        "labels": list(data.vocabulary()),
        "packages": list(data.packages),
        "width": model.width,
    }
    weft.save(content, path)


def load_model(path: Path) -> tuple[TreeLSTM, list[str]]:
    """The saved model, ready to classify, and the names of its classes."""
    content: dict[str, Any] = weft.load(path)
    packages: list[str] = content["packages"]
    model = TreeLSTM(content["labels"], len(packages), content["width"])
    model.load_state_dict(content["model"])
    model.eval()
    return model, packages


def default_target() -> Function:
    """A function of Weft itself, which no training has seen."""
    return find_function(f"{Path(__file__).with_name('train.py')}:Trainer.step")


def classify(model: TreeLSTM, packages: list[str], function: Function) -> None:
    """Say which packages a function looks like."""
    with weft.no_grad():
        chances = model(function.tree).softmax(0).tolist()
    print(f"{function.name} in {function.file} ({function.tree.size()} nodes) looks like")
    for chance, package in sorted(zip(chances, packages, strict=True), reverse=True)[:3]:
        print(f"  {package:<16} {chance:6.1%}")


if __name__ == "__main__":
    sys.exit(main())
