"""Public docstrings are complete: each names every parameter, and their examples print what stands there.

What packages look for and Weft has not, exceptions and members of enumerations are made by nobody: their parameters do
not count.
"""

from __future__ import annotations

import doctest
import enum
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import weft
from weft.engine.api.docstrings import completed, examples, named_in, parameters
from weft.engine.api.public_names import MODULES

ALONE = (
    "weft.profiler",
    "weft.debug",
)  # what these show depends on what has run: `make doctests` runs theirs alone


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes of Weft that a module has, by name."""
    for name in getattr(module, "__all__", None) or dir(module):
        if name.startswith("_") or name == "tensorboard":
            continue
        member = getattr(module, name)
        written = str(getattr(member, "__module__", ""))
        made = callable(member) and hasattr(member, "__name__")  # no object that can be called
        if made and not isinstance(member, ModuleType) and written.startswith("weft"):
            yield name, member


def members() -> Iterator[tuple[str, str, Any]]:
    """(module, name, member) of everything public once, at its first place, and the methods of Tensor."""
    seen: set[int] = set()
    for path in MODULES:
        for name, member in public(import_module(path)):
            if id(member) not in seen and not is_made_by_nobody(member):
                seen.add(id(member))
                yield path, name, member
    for name in dir(weft.Tensor):
        method = getattr(weft.Tensor, name)
        if not name.startswith("_") and callable(method) and id(method) not in seen:
            yield "weft.Tensor", name, method


def is_made_by_nobody(member: Any) -> bool:
    if not isinstance(member, type):
        return False
    absent = member.__module__ in ("weft.compat.absent", "weft.distributed.absent")
    return absent or issubclass(member, (BaseException, enum.Enum))


MEMBERS = list(members())


def test_every_parameter_is_named() -> None:
    """By its docstring, or by the vocabulary's words."""
    lacking = []
    for path, name, member in MEMBERS:
        wanted = parameters(getattr(member, "__wrapped__", member))
        named = named_in(member.__doc__ or "")
        if missing := [each for each in wanted if each not in named]:
            lacking.append(f"{path}.{name}: {', '.join(missing)}")
    assert lacking == []


def test_what_none_means_is_said() -> None:
    """A parameter that is None by default says what that is."""
    silent = [
        f"{path}.{name}: {each.name}"
        for path, name, member in MEMBERS
        for each in parameters(getattr(member, "__wrapped__", member)).values()
        if each.default is None
        if (words := entry(member.__doc__, each.name)) and "None" not in words
    ]
    assert silent == []


def entry(doc: str, parameter: str) -> str:
    """What a completed docstring says about a parameter."""
    found = re.search(
        rf"^ {{4}}(?:\w+, )*\*{{0,2}}{parameter}\b.*: (?:.|\n {{8}})*", doc, re.MULTILINE
    )
    return found[0] if found else ""


def test_classes_that_programs_are_made_of_have_an_example() -> None:
    """Layers, losses, optimizers, schedules, loaders and distributions."""
    rooms = ("weft.nn", "weft.optim", "weft.data", "weft.distributions")
    lacking = [
        f"{path}.{name}"
        for path, name, member in MEMBERS
        if isinstance(member, type)
        and path.startswith(rooms)
        and ">>>" not in (member.__doc__ or "")
    ]
    assert lacking == []


def test_every_public_name_has_a_docstring() -> None:
    assert [f"{path}.{name}" for path, name, member in MEMBERS if not member.__doc__] == []


def test_a_docstring_begins_with_a_sentence() -> None:
    """A section is no beginning."""
    first = {f"{p}.{name}": (m.__doc__ or "").strip().partition("\n")[0] for p, name, m in MEMBERS}
    assert [name for name, line in first.items() if line.endswith(":") and " " not in line] == []


def test_examples_print_what_stands_there() -> None:
    """All examples of completed docstrings, each in names of its own."""
    failed = [
        f"{path}.{name}: {text}"
        for path, name, member in MEMBERS
        if ">>>" in (member.__doc__ or "") and path not in ALONE
        for text in failures(member.__doc__, name)
    ]
    assert failed == []


def failures(doc: str, name: str) -> list[str]:
    """The report of a docstring's examples where one prints something else."""
    test = doctest.DocTestParser().get_doctest(doc, {}, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return ["".join(report)] if report else []


def test_every_example_belongs_to_a_public_name() -> None:
    """A name that has gone leaves no example behind."""
    known = {f"{path}.{name}".removeprefix("weft.") for path, name, _ in MEMBERS}
    of_methods = [name for name in examples() if name not in known]
    assert [name for name in of_methods if ".".join(name.split(".")[-2:]) not in METHODS] == []


def test_importing_completes_nothing() -> None:
    """Words and examples are read when somebody asks for a docstring."""
    program = "import weft, sys; sys.exit('weft.engine.api.docstrings' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def scaled(input: weft.Tensor, factor: float = 2.0, *, out: weft.Tensor | None = None) -> None:
    """The input times a factor, broadcast. Shapes: as `input`. Errors: TypeError on text.

    Args:
        factor: by how much.

    More prose. Cost: one pass.
    """


COMPLETED = """The input times a factor, broadcast.

More prose.

Args:
    input: the input tensor.
    factor: by how much.
    out: a tensor for the result, or a tuple of them where there are several; None: new
        ones.

Shape:
    as `input`.

Raises:
    TypeError on text.

Cost:
    one pass.
"""


def test_what_a_docstring_leaves_out_is_completed() -> None:
    """Own words stay, the vocabulary's follow, and sentences become sections."""
    assert completed(scaled, scaled.__doc__, "scaled") == COMPLETED
    assert completed(scaled, None, "scaled") is None


def test_words_are_those_of_the_longest_pattern() -> None:
    """A family says what a name means there; what None means stands where it is the default."""
    from weft.engine.api.vocabulary import meaning

    assert meaning("dim", "unsqueeze") != meaning("dim", "cumsum") == meaning("dim", "no_function")
    assert meaning("input", "Tensor.exp_") == "the tensor that is written to and returned"
    assert meaning("no_parameter", "sum") is None
    doc = weft.sum.__doc__ or ""
    assert "; None: all" in " ".join(doc.split()) and "Default: False." in doc


@pytest.mark.parametrize("name", ["sum", "Tensor.addbmm", "exp_", "nn.Linear", "nn.Conv2d"])
def test_help_names_parameters(name: str) -> None:
    """Functions, methods that stand in for functions, functions in place, classes."""
    member: Any = weft
    for part in name.split("."):
        member = getattr(member, part)
    wanted = parameters(getattr(member, "__wrapped__", member))
    assert named_in(member.__doc__) == set(wanted)


# Modules that have names of PyTorch's and no page: what is left to PyTorch's own words, and why.
WITHOUT_PAGE = {
    "weft.ao.": "marks of quantized programs, which PyTorch has moved to another package",
    "weft.nn.quantized.": "an older path of weft.ao.nn.quantized",
    "weft.quantization.": "the older path of weft.ao.quantization",
    "weft.autograd.function": "forms of Function of old programs",
    "weft.autograd.profiler": "the profiler of old programs; weft.profiler is described",
    "weft.autograd.variable": "what tensors were once",
    "weft.backends.": "switches of libraries that are not there, each with one sentence on the page of backends",
    "weft.cuda.": "parts of what the page of cuda describes, under older paths",
    "weft.distributed.algorithms.": "single hooks and helpers of what the pages beside them describe",
    "weft.distributed.autograd": "says that it is not there",
    "weft.distributed.checkpoint.format_utils": "files of PyTorch's",
    "weft.distributed.pipelining.": "base classes of the schedules that are described",
    "weft.distributed.rpc": "says that it is not there",
    "weft.distributed.tensor.experimental": "may change in PyTorch",
    "weft.distributions.": "base classes of distributions that are described",
    "weft.export": "a name of a dimension, all that there is of torch.export",
    "weft.fx.": "tools of those who write passes over graphs",
    "weft.nn.grad": "derivatives of convolutions of programs that know no autograd",
    "weft.nn.modules.": "hooks of all modules at once, and base classes",
    "weft.nn.parallel.distributed": "the class that weft.nn.parallel describes, called with older arguments",
    "weft.nn.parameter": "base classes of lazy parameters",
    "weft.nn.utils.": "what hooks of weights consist of",
    "weft.onnx.symbolic_helper": "decorators of PyTorch's older exporter",
    "weft.optim.": "optimizers as functions of lists, which PyTorch leaves out too",
    "weft.profiler.itt": "marks that Intel's profiler would see",
    "weft.torch_version": "the number of PyTorch's version",
    "weft.utils": "helpers that PyTorch's own packages use",
}


def public_modules() -> Iterator[tuple[str, ModuleType, ModuleType]]:
    """The modules of Weft that PyTorch has under the same name without an underscore, with PyTorch's."""
    found = {each.name for each in pkgutil.walk_packages(weft.__path__, "weft.", lambda name: None)}
    for name in sorted(found | {*MODULES}):
        parts = name.split(".")[1:]
        if any(part.startswith("_") for part in parts):
            continue
        try:
            yield name, import_module(name), import_module(".".join(["torch", *parts]))
        except ImportError:
            continue  # Weft's own, or made with a package that is not installed


@pytest.mark.filterwarnings("ignore")  # of PyTorch's modules that are to go
def test_what_pytorch_has_is_described_or_left_out_on_purpose() -> None:
    """Each name of each public module has a page under the lint, or its module says why not."""
    pytest.importorskip("torch")
    described = {id(each) for _, _, member in MEMBERS for each in (member, inspect.unwrap(member))}
    left: set[str] = set()
    for path, module, theirs in public_modules():
        listed = getattr(theirs, "__all__", None)
        left |= {
            f"{path}.{name}"
            for name, member in public(module)
            if not {id(member), id(inspect.unwrap(member))} & described
            if not is_made_by_nobody(member) and (listed is None or name in listed)
            if str(getattr(getattr(theirs, name, None), "__module__", "")).startswith("torch")
        }
    assert [name for name in sorted(left) if not name.startswith(tuple(WITHOUT_PAGE))] == []


def public_methods() -> Iterator[tuple[str, Any]]:
    """The methods of public classes other than Tensor, by their qualified names; those of Tensor as its subclasses have
    them (`Asking`) are described there."""
    seen: set[int] = set()
    for _, _, member in MEMBERS:
        for owner in getattr(member, "__mro__", ()):
            is_tensor = owner is weft.Tensor or owner.__name__ == "Asking"
            if is_tensor or not owner.__module__.startswith("weft"):
                continue
            for name, found in vars(owner).items():
                method = getattr(found, "__func__", found)  # of a class or static method
                made = callable(method) and not isinstance(method, (type, property))
                if made and not name.startswith("_") and id(method) not in seen:
                    seen.add(id(method))
                    yield f"{owner.__name__}.{name}", method


METHODS = dict(public_methods())


def test_methods_name_their_parameters() -> None:
    """By their docstrings, or by that of the method that they override, which `help` shows where they have none."""
    lacking = []
    for name, method in METHODS.items():
        named = named_in(inspect.getdoc(method) or "")
        wanted = parameters(getattr(method, "__wrapped__", method))
        if missing := [each for each in wanted if each not in {*named, "cls"}]:
            lacking.append(f"{name}: {', '.join(missing)}")
    assert len(METHODS) > 700
    assert lacking == []


def test_examples_of_methods_print_what_stands_there() -> None:
    """Each in names of its own."""
    failed, run = [], 0
    for name, method in METHODS.items():
        doc = inspect.getdoc(method) or ""
        if ">>>" in doc and not method.__module__.startswith(ALONE):
            run += 1
            failed += [f"{name}: {text}" for text in failures(doc, name)]
    assert run > 60
    assert failed == []


def test_methods_have_docstrings() -> None:
    """Their own, or that of the method that they override."""
    assert [name for name, method in METHODS.items() if not inspect.getdoc(method)] == []


def test_words_for_functions_do_not_describe_methods_of_other_classes() -> None:
    """`prepend` of `diff` is a tensor; that of a hook is a flag."""
    from weft.engine.api.vocabulary import meaning

    assert "before the hooks" in (
        meaning("prepend", "optim.Optimizer.register_step_pre_hook") or ""
    )
    assert meaning("strict", "nn.Module.no_method") != meaning("strict", "func.vmap")
    assert meaning("prepend", "nn.Module.no_method") is None


NO_SHAPE = re.compile(
    r"(Parameter|Module|Uninitialized|Buffer|Container|.*Options|RNN(Cell)?Base|assert_)"
)


def test_layers_and_functions_say_shapes() -> None:
    """Of nn, functional, linalg, fft and special: what comes in, and what goes out."""
    rooms = ("weft.nn", "weft.nn.functional", "weft.linalg", "weft.fft", "weft.special")
    assert [
        f"{path}.{name}"
        for path, name, member in MEMBERS
        if path in rooms and not NO_SHAPE.match(name)
        if not re.search(r"^(Shape|Returns):$", member.__doc__, re.MULTILINE)
    ] == []


@pytest.mark.filterwarnings("ignore:dropout")  # of whole channels, which a matrix has none of
def test_what_keeps_its_shape_does() -> None:
    """Functions of one tensor whose docstring says "any -> the same"; some take integers alone."""
    checked = []
    for path, name, member in MEMBERS:
        given = parameters(getattr(member, "__wrapped__", member))
        needed = [each.name for each in given.values() if each.default is each.empty]
        said = "Shape:\n    any -> the same." in (member.__doc__ or "")
        if said and needed == ["input"] and path != "weft.Tensor":
            x = weft.ones(2, 3, dtype=weft.int64 if name == "bitwise_not" else weft.float32)
            assert member(x * 0.5 if x.is_floating_point() else x).shape == (2, 3), name
            checked.append(name)
    assert len(checked) > 40


@pytest.mark.parametrize("name", ["exp_", "Tensor.exp_"])
def test_what_works_in_place_says_what_it_does(name: str) -> None:
    """The function of `weft` and the method, in the words of `exp`."""
    member: Any = weft
    for part in name.split("."):
        member = getattr(member, part)
    assert member.__doc__.startswith("`exp`, in place: e to the power of each element.")


def test_what_is_stored_in_place_is_no_copy_and_not_broadcast() -> None:
    doc = weft.Tensor.scatter_.__doc__
    assert doc.startswith("`scatter`, in place: with src")
    assert "Shape:\n    the tensor keeps its shape.\n" in doc


def test_the_words_of_object_describe_no_method() -> None:
    """`help(nn.LSTM)` shows `__init__` as Python does: the class says what its parameters are."""
    assert weft.nn.LSTM.__init__.__doc__ is None
    assert "Shape:" not in (inspect.getdoc(weft.nn.LSTM.__init__) or "")


def test_a_stand_in_is_described_as_what_it_calls() -> None:
    assert weft.Tensor.diff.__doc__.partition("\n")[0] == weft.diff.__doc__.partition("\n")[0]


def promised(error: str) -> list[tuple[str, Any, list[str]]]:
    """Functions whose docstrings promise an error, and what else than a tensor has to be passed."""
    return [
        (f"{path}.{name}", member, needed)
        for path, name, member in MEMBERS
        if path not in ("weft.Tensor", "weft.sparse") and error in (member.__doc__ or "")
        if isinstance(named := parameters(getattr(member, "__wrapped__", member)), dict)
        for needed in [[each.name for each in named.values() if each.default is each.empty]]
    ]


@pytest.mark.filterwarnings("ignore")  # of functions that are to go
def test_dimensions_that_are_not_there_are_refused_as_promised() -> None:
    x, checked = weft.ones(2, 3), []
    for name, function, needed in promised("for a `dim` that the input does not have."):
        if {*needed} <= {"input", "dim"} and not name.endswith("nuclear_norm"):  # of two dimensions
            with pytest.raises(IndexError):
                function(x, dim=7)
            checked.append(name)
    assert len(checked) > 70


def test_shapes_that_do_not_broadcast_are_refused_as_promised() -> None:
    checked = []
    for name, function, needed in promised("where the shapes do not broadcast."):
        if len(needed) == 2 and not name.endswith("_"):
            plain = name.rpartition(".")[2]
            whole = plain.startswith(("bitwise", "gcd", "lcm"))
            logical = plain.startswith("logical_")  # of the standard on bool alone
            dtype = weft.int64 if whole else weft.bool if logical else weft.float32
            with pytest.raises(weft.errors.ShapeError):
                function(weft.ones(2, 3, dtype=dtype), weft.ones(4, dtype=dtype))
            checked.append(name)
    assert len(checked) > 30


def test_sources_are_those_that_are_cited() -> None:
    """By the sentence, or by the vocabulary."""
    assert "Source:\n    Ba et al. 2016.\n" in weft.nn.LayerNorm.__doc__
    assert "Source:\n    Loshchilov and Hutter 2019.\n" in weft.optim.AdamW.__doc__
