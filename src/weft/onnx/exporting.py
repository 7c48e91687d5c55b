"""`weft.onnx.export`: a call is recorded, once for each size that dynamic dimensions are tried with, and written."""

from __future__ import annotations

import enum
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import weft
from weft import onnx as _package
from weft.debug.capsules.records import VALUE, CapsuleRecord, ScalarOperand
from weft.engine.frontend.resolve import value_of
from weft.engine.pipeline import driver
from weft.errors import ArgumentError, ArgumentTypeError, WeftError, class_name
from weft.nn import Module
from weft.onnx import dynamic as dimensions
from weft.onnx.errors import OnnxExporterError, missing
from weft.onnx.graph import OnnxGraph, UnknownSize, element_type
from weft.onnx.operators import TABLE, RecordedOperation, is_one, refusal
from weft.onnx.program import MOST_INLINE_BYTES, ONNXProgram
from weft.onnx.recording import RecordedCall, record_call
from weft.onnx.sizes import Disagreement, Size, Varied, merged
from weft.utils._pytree import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, ValueInfoProto
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor

OPSET = 18
LEAST_OPSET, MOST_OPSET = 18, 23
IR_VERSION = 10  # of onnx 1.17: older programs read it


class TrainingMode(enum.IntEnum):
    """The mode in which a module is exported: EVAL, as it is (PRESERVE), or TRAINING."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Ways of the older exporter; only ONNX is here."""

    ONNX = 0


def export(
    model: Callable[..., object],
    args: tuple[object, ...] | Tensor = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, object] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Mapping[str, object] | Sequence[object] | None = None,
    custom_translation_table: Mapping[object, object] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, object] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type] = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Write what one call of a model records as an ONNX model.

    The call is recorded and not run: one graph for all values of the inputs. Where a dimension may change, the call is
    recorded for several sizes of it, and what differs is found again as sums, multiples, products and quotients of the
    sizes. The parameters are constants of the model, under their names in `state_dict`. The model has been checked by
    `onnx.checker` when it is returned.

    Args:
        model: a module, or a function of tensors.
        args: the arguments of the call, or the only one; tensors in them, also in lists and dicts, are the inputs, all
            else is as it is.
        f: the file to write; None: the program is only returned.
        kwargs: further arguments by name.
        verbose: True prints the graph.
        input_names: names for the inputs, in order; by default those of the arguments.
        output_names: names for the outputs, in order; by default `output_0`, ...
        opset_version: the version of ONNX's operators, from 18 (the default) to 23; an older one is asked of onnx's
            converter.
        dynamo: False: nothing is returned, and `f` must be given, as with PyTorch's older exporter.
        external_data: the weights go to a file `.data` beside `f`; False: they are in `f`, as long as that has less
            than 2 GB.
        dynamic_shapes: dimensions that may change, by arguments, as `{"x": {0: "batch"}}`; equal names are equal sizes.
            A `Dim` of `torch.export` counts by its name and bounds.
        custom_translation_table: must be None: what is exported are primitives.
        report: no effect.
        optimize: no effect: nodes that nothing needs are always left out.
        verify: True runs the model by onnxruntime on the arguments, and compares with the call.
        profile: no effect.
        dump_exported_program: no effect.
        artifacts_dir: no effect.
        export_params: False leaves the parameters out; they are inputs then.
        keep_initializers_as_inputs: True makes constants inputs too.
        dynamic_axes: dimensions that may change, by `input_names`, as `{"x": {0: "batch"}}` or `{"x": [0]}`.
        training: the mode in which a module is recorded; it has its own again afterwards.
        operator_export_type: must be ONNX.
        do_constant_folding: no effect.
        custom_opsets: must be None or empty.
        export_modules_as_functions: must be False.
        autograd_inlining: no effect.

    Returns: an `ONNXProgram`; None where `dynamo` is False.

    Raises: `OnnxExporterError` (a RuntimeError) with the line of the program for control flow that depends on values,
    for an operation that ONNX does not have, for a size that is no formula of the dynamic ones; ValueError for
    dimensions that do not fit the inputs; ImportError without the package `onnx`; what the call raises.

    Cost: the parameters are copied once; a call per size is recorded, and none is run.

    Example:
        >>> import weft
        >>> model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU())
        >>> program = weft.onnx.export(
        ...     model, (weft.ones(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "batch"}}
        ... )  # doctest: +SKIP
        >>> program  # doctest: +SKIP
        ONNXProgram(2 nodes, 2 constants, inputs ['x'], outputs ['output_0'], opset 18)
    """
    _check_choices(custom_translation_table, custom_opsets, export_modules_as_functions, f, dynamo)
    try:
        import onnx
    except ImportError:
        raise missing("onnx") from None
    call = _Call(model, args if isinstance(args, tuple | list) else (args,), dict(kwargs or {}))
    inputs = call.named(input_names)
    dynamic = call.dynamic(dynamic_shapes, dynamic_axes, inputs)
    opset = OPSET if opset_version is None else opset_version

    def written(traces: list[RecordedCall]) -> ModelProto:
        return _Export(call, traces, dynamic, max(opset, LEAST_OPSET), inputs, output_names).model()

    with _mode(model, training):
        made = _converted(call.written(dynamic, written), opset)
    if made.ByteSize() < MOST_INLINE_BYTES:
        onnx.checker.check_model(made, full_check=True)
    program = ONNXProgram(made)
    if verbose:
        print(onnx.printer.to_text(made.graph))
    if verify:
        with _mode(model, training):
            _verify(program, call)
    if f is not None:
        program.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data and dynamo,
        )
    return program if dynamo else None


def _check_choices(
    table: object, opsets: object, functions: object, f: object, dynamo: bool
) -> None:
    """Errors: ValueError for what is not offered; TypeError where nothing would come of the call."""
    for name, given in (
        ("custom_translation_table", table),
        ("custom_opsets", opsets),
        ("export_modules_as_functions", functions),
    ):
        if given:
            raise ArgumentError(
                f"onnx.export: there is no {name} here",
                expected="None: what is exported are the primitives that a call records",
                got=f"{given!r:.60}",
                fix=f"leave {name} out",
            )
    if f is None and not dynamo:
        raise ArgumentTypeError(
            "onnx.export: with dynamo=False the model goes to a file",
            expected="the path f",
            got="None",
            fix='pass f="model.onnx", or leave dynamo out',
        )


@contextmanager
def _mode(model: object, training: int) -> Iterator[None]:
    """A module's mode while it is recorded; every module below has its own again."""
    if not isinstance(model, Module) or training == TrainingMode.PRESERVE:
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.train(training == TrainingMode.TRAINING)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class _Call:
    """The model and the arguments; its inputs are the tensors among them."""

    def __init__(
        self, model: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
    ) -> None:
        if not callable(model):
            raise ArgumentTypeError(
                f"onnx.export: expected a module or a function, got {class_name(model)}",
                got=f"{model!r:.60}",
            )
        if (
            args
            and isinstance(args[-1], dict)
            and not kwargs
            and len(args) > 1
            and _takes_less(model, args)
        ):
            kwargs = dict(args[-1].items())
            args = args[:-1]  # the older exporter's way to give names
        self.model, self.args, self.kwargs = model, list(args), kwargs
        self.leaves, self.tree = tree_flatten([self.args, self.kwargs])
        self.places = [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, weft.Tensor)]
        self.varies = False  # whether it is recorded for other sizes too

    @property
    def inputs(self) -> list[Tensor]:
        return [self.leaves[place] for place in self.places]

    def arguments(self) -> dict[str, object]:
        """The arguments by the names of parameters; those of `*args` are numbered."""
        names = _parameters(self.model)
        found: dict[str, object] = {}
        for number, value in enumerate(self.args):
            found[names[number] if number < len(names) else f"args_{number}"] = value
        return {**found, **self.kwargs}

    def named(self, given: Sequence[str] | None) -> list[str]:
        """A name for each input. Errors: ValueError for more names than inputs."""
        names: list[str] = []
        for name, value in self.arguments().items():
            count = sum(isinstance(leaf, weft.Tensor) for leaf in tree_flatten(value)[0])
            single = isinstance(value, weft.Tensor)
            names += [name] if single else [f"{name}_{number}" for number in range(count)]
        return _renamed(names, given, "input_names")

    def dynamic(
        self, shapes: object, axes: Mapping[str, object] | None, names: Sequence[str]
    ) -> dimensions.Dynamic:
        """The dimensions that may change."""
        if shapes is not None:
            return dimensions.by_shapes(shapes, self.arguments(), self.inputs)
        if axes:
            return dimensions.by_axes(axes, names, self.inputs)
        return dimensions.none(len(self.places))

    def with_inputs(self, inputs: Sequence[Tensor]) -> tuple[list[object], dict[str, object]]:
        """The arguments with other tensors."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, inputs, strict=True):
            leaves[place] = tensor
        placed: Any = tree_unflatten(leaves, self.tree)
        return placed[0], placed[1]

    def written(
        self, dynamic: dimensions.Dynamic, write: Callable[[list[RecordedCall]], ModelProto]
    ) -> ModelProto:
        """The model of the call, or of calls of other sizes. Errors: OnnxExporterError; what the call raises."""
        self.varies = bool(dynamic.dimensions)
        if not self.varies:
            return write([self.trace(self.inputs)])
        first: Exception | None = None
        for calls in dynamic.calls():
            try:
                found = [self.trace(dynamic.resized(self.inputs, sizes)) for sizes in calls]
                _check_agreement(found)
                made = write(found)
                if isinstance(first, OnnxExporterError):
                    _warn_of_sizes(calls)
                return made
            except OnnxExporterError as error:
                if "was read" in error.what or "cannot be exported" in error.what:
                    raise
                first = first or error
            except Exception as error:  # a size that the model does not take
                first = first or error
        raise first or _no_sizes(dynamic)

    def trace(self, inputs: Sequence[Tensor]) -> RecordedCall:
        args, kwargs = self.with_inputs(inputs)
        driver.flush()
        names = _names(self.model)
        _package._exports_under_way += 1
        try:
            return record_call(
                self.model, args, kwargs, names, is_one, _modules(self.model), self.varies
            )
        finally:
            _package._exports_under_way -= 1


def _warn_of_sizes(calls: Sequence[Mapping[str, int]]) -> None:
    """Say that the program goes another way for sizes that are farther apart than those it was recorded for."""
    tried = ", ".join(f"{name} {[call[name] for call in calls]}" for name in calls[0])
    warnings.warn(
        f"onnx.export: the program records other operations for some sizes; the model holds for such as {tried}",
        RuntimeWarning,
        stacklevel=5,
    )


def _no_sizes(dynamic: dimensions.Dynamic) -> ArgumentError:
    bounds = [f"{d.name} in {d.low}..{d.high}" for d in dynamic.dimensions.values()]
    return ArgumentError(
        "onnx.export: dynamic dimensions with too few sizes",
        expected="sizes from 2 up, some apart, that each may have",
        got=", ".join(bounds),
        fix="widen the bounds, or leave the dimension out of dynamic_shapes",
    )


def _takes_less(model: object, args: Sequence[object]) -> bool:
    return len(args) > len(_parameters(model))


def _parameters(model: object) -> list[str]:
    """The names of positional parameters, as far as they can be told."""
    try:
        function = model.forward if isinstance(model, Module) else model
        found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in found if parameter.kind in positional]


def _modules(model: object) -> list[Module]:
    """The modules that a call goes through, as far as they can be told: a function's are those that it names."""
    found = [model, getattr(model, "__self__", None)]
    if inspect.isfunction(model):
        names = inspect.getclosurevars(model)
        found += [*names.nonlocals.values(), *names.globals.values()]
    roots = [one for one in found if isinstance(one, Module)]
    return list(dict.fromkeys(module for root in roots for module in root.modules()))


def _names(model: object) -> dict[Any, str]:
    """The names of a module's parameters and buffers, by their values."""
    if not isinstance(model, Module):
        return {}
    pairs = [*model.named_buffers(), *model.named_parameters()]
    return {value_of(tensor): name for name, tensor in pairs}


def _renamed(names: list[str], given: Sequence[str] | None, what: str) -> list[str]:
    """Names by default, the first ones as they are given. Errors: ValueError."""
    wanted = list(given or ())
    if len(wanted) > len(names) or len(set(wanted)) != len(wanted):
        raise ArgumentError(
            f"onnx.export: {what} that do not fit",
            expected=f"at most {len(names)} different names",
            got=f"{wanted!r:.80}",
        )
    return [*wanted, *names[len(wanted) :]]


# -- agreement of calls ----------------------------------------------------------------------------------------------


def _check_agreement(traces: Sequence[RecordedCall]) -> None:
    """Errors: OnnxExporterError where calls of other sizes record other operations."""
    first = traces[0].records
    for trace in traces[1:]:
        for one, other in zip(first, trace.records, strict=False):
            if (
                one.op != other.op
                or len(one.inputs) != len(other.inputs)
                or one.dtype != other.dtype
            ):
                raise _apart(one, other)
        if len(first) != len(trace.records):
            longer = max(first, trace.records, key=len)
            raise _apart(longer[min(len(first), len(trace.records))], None)


def _apart(one: CapsuleRecord, other: CapsuleRecord | None) -> OnnxExporterError:
    return OnnxExporterError(
        "onnx.export: calls of other sizes record other operations",
        expected="the same steps for all sizes of the dynamic dimensions",
        got=f"{one.op} at {one.line or '?'}, and {'nothing' if other is None else f'{other.op} at {other.line}'}",
        fix="leave the dimension that a loop or a condition depends on out of dynamic_shapes",
    )


# -- from records to nodes ---------------------------------------------------------------------------------------------


class _Export:
    """Turns the records of all calls into one graph."""

    def __init__(
        self,
        call: _Call,
        traces: list[RecordedCall],
        dynamic: dimensions.Dynamic,
        opset: int,
        input_names: list[str],
        output_names: Sequence[str] | None,
    ) -> None:
        self.call, self.traces, self.dynamic = call, traces, dynamic
        self.input_names = input_names
        defaults = [f"output_{number}" for number in range(len(traces[0].outputs))]
        self.output_names = _renamed(defaults, output_names, "output_names")
        labels = {record.name for record in traces[0].records if record.name}
        self.graph = OnnxGraph(opset, {*input_names, *self.output_names, *labels})
        self.names: dict[int, str] = {}

    def model(self) -> ModelProto:
        from onnx import helper

        inputs = self.inputs()
        for number in range(len(self.traces[0].records)):
            if number not in self.names:
                self.names[number] = self.add(number)
        self.graph.label = ""
        outputs = [self.output(place, name) for place, name in enumerate(self.output_names)]
        self.graph.prune(self.output_names)
        graph = helper.make_graph(
            self.graph.nodes,
            type(self.call.model).__name__ if isinstance(self.call.model, Module) else "main_graph",
            inputs,
            outputs,
            list(self.graph.initializers.values()),
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.graph.opset)],
            ir_version=IR_VERSION,
            producer_name="weft",
            producer_version=weft.__version__,
        )

    def inputs(self) -> list[ValueInfoProto]:
        """The inputs, and the names of their dynamic sizes."""
        made = []
        for place, (tensor, name) in enumerate(
            zip(self.call.inputs, self.input_names, strict=True)
        ):
            axes = self.dynamic.axes[place]
            shape = [axes.get(axis, size) for axis, size in enumerate(tensor.shape)]
            made.append(_value_info(name, tensor.dtype.name, shape))
            number = self.traces[0].inputs[place]
            if number is None:
                continue
            self.names[number] = name
            for axis, dimension in axes.items():
                shapes = [trace.records[number].shape for trace in self.traces]
                size = merged([whole[axis] for whole in shapes])
                if isinstance(size, Varied):
                    length = self.graph.call("Shape", name, start=axis, end=axis + 1)
                    self.graph.know_dimension(size, length, dimension)
        return made

    def add(self, number: int) -> str:
        """The name of a record's value."""
        records = [trace.records[number] for trace in self.traces]
        if records[0].op == VALUE:
            return self.add_value(number, records[0])
        self.graph.label = f"{records[0].line}: {records[0].source}".strip(": ")
        try:
            operation = self.operation(number, records)
            why = refusal(operation)
            if why is not None:
                raise _unsupported(records[0], why)
            return TABLE[operation.name](self.graph, operation)
        except (UnknownSize, Disagreement) as error:
            raise _unknown_size(records[0], str(error)) from None

    def add_value(self, number: int, record: CapsuleRecord) -> str:
        arrays = [trace.arrays[number] for trace in self.traces]
        if element_type(record.dtype) is None:
            raise _unsupported(record, f"ONNX Runtime has no {record.dtype}")
        if not all(_equal(array, arrays[0]) for array in arrays[1:]):
            raise _unknown_size(record, "a value from outside")
        name = record.name if record.name not in self.graph.initializers else ""
        return self.graph.constant(arrays[0], record.dtype, name)

    def operation(self, number: int, records: list[CapsuleRecord]) -> RecordedOperation:
        """One operation of all calls. Errors: Disagreement."""
        shapes: list[tuple[Size, ...]] = []
        dtypes, operands = [], []
        for place, source in enumerate(records[0].inputs):
            sources = [record.inputs[place] for record in records]
            if isinstance(source, ScalarOperand):
                shapes.append(())
                dtypes.append(source.dtype)
                operands.append(self.number(sources))
                continue
            if len(set(sources)) != 1:
                raise Disagreement
            found = [trace.records[source] for trace in self.traces]
            shapes.append(_merged_tuple([record.shape for record in found]))
            dtypes.append(found[0].dtype)
            operands.append(self.names[source])
        record = records[0]
        return RecordedOperation(
            record.op,
            operands,
            dtypes,
            shapes,
            merged([one.params for one in records]),
            record.dtype,
            _merged_tuple([one.shape for one in records]),
        )

    def number(self, sources: Sequence[object]) -> str:
        """A number among operands; one that differs by call is a size."""
        numbers = [source for source in sources if isinstance(source, ScalarOperand)]
        if len(numbers) != len(sources):
            raise Disagreement
        values = [_whole(number.value) for number in numbers]
        value: Any = merged(values)
        if isinstance(value, Varied):
            return self.graph.cast(self.graph.scalar_size(value), numbers[0].dtype)
        return self.graph.number(numbers[0].value, numbers[0].dtype)

    def output(self, place: int, name: str) -> ValueInfoProto:
        """One output, under its name."""
        numbers = [trace.outputs[place] for trace in self.traces]
        first = numbers[0]
        if isinstance(first, ScalarOperand):
            self.graph.nodes.append(_identity(self.number(numbers), name))
            return _value_info(name, first.dtype, [])
        records = [trace.records[first] for trace in self.traces]
        self.graph.nodes.append(_identity(self.names[first], name))
        shape = _merged_tuple([record.shape for record in records])
        try:
            sizes = [self.graph.text(size) for size in shape]
        except UnknownSize as error:
            raise _unknown_size(records[0], str(error)) from None
        return _value_info(name, records[0].dtype, sizes)


def _whole(value: object) -> object:
    """A number that is whole as an int, so that it may be a size; others as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _merged_tuple(values: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    found = merged(values)
    assert isinstance(found, tuple)
    return found


def _equal(array: Array, other: Array) -> bool:
    return array.shape == other.shape and array.tobytes() == other.tobytes()


def _identity(source: str, name: str) -> Any:
    from onnx import helper

    return helper.make_node("Identity", [source], [name], name=f"{name}_identity")


def _value_info(name: str, dtype: str, shape: Sequence[int | str]) -> ValueInfoProto:
    from onnx import helper

    kind = element_type(dtype)
    if kind is None:
        raise OnnxExporterError(
            f"onnx.export: {name} is of a type that ONNX Runtime does not have",
            expected="real numbers, integers or truth values",
            got=dtype,
            fix="export the real and imaginary parts",
        )
    return helper.make_tensor_value_info(name, kind, list(shape))


def _unsupported(record: CapsuleRecord, why: str) -> OnnxExporterError:
    return OnnxExporterError(
        f"onnx.export: {record.op} cannot be exported",
        expected="an operation that ONNX has",
        got=f"{record.op} {record.type} at {record.line or '?'}"
        + (f": {record.source}" if record.source else ""),
        fix=why,
    )


def _unknown_size(record: CapsuleRecord, what: str) -> OnnxExporterError:
    return OnnxExporterError(
        "onnx.export: a size that is no formula of the dynamic dimensions",
        expected="sums, multiples, products and quotients of them",
        got=f"{what or 'other numbers by call'} in {record.op} {record.type} at {record.line or '?'}"
        + (f": {record.source}" if record.source else ""),
        fix="make values in the call by weft.arange, weft.zeros and the like, or leave the dimension out",
    )


def _converted(model: ModelProto, opset: int) -> ModelProto:
    """A model in an older version of the operators. Errors: ValueError where there is no way."""
    if LEAST_OPSET <= opset <= MOST_OPSET:
        return model
    from onnx import version_converter

    try:
        if opset > MOST_OPSET:
            raise ValueError(f"opset {opset}")
        return version_converter.convert_version(model, opset)
    except Exception as error:  # the converter's own
        raise ArgumentError(
            f"onnx.export: no operators of version {opset}",
            expected=f"{LEAST_OPSET} to {MOST_OPSET}, or what onnx can convert to",
            got=str(error).splitlines()[0][:100] if str(error) else type(error).__name__,
            fix=f"leave opset_version out: {OPSET}",
        ) from None


def _verify(program: ONNXProgram, call: _Call) -> None:
    """Errors: OnnxExporterError where onnxruntime gives other values than the call."""
    args, kwargs = call.with_inputs(call.inputs)
    with weft.no_grad():
        found = call.model(*args, **kwargs)
    wanted = [leaf for leaf in tree_flatten(found)[0] if isinstance(leaf, weft.Tensor)]
    for name, mine, theirs in zip(
        program.output_names, wanted, program(*args, **kwargs), strict=True
    ):
        try:
            weft.testing.assert_close(theirs, mine.detach(), rtol=1e-3, atol=1e-4, equal_nan=True)
        except (AssertionError, WeftError) as error:
            raise OnnxExporterError(
                f"onnx.export: onnxruntime gives other values for {name}",
                expected="the values of the call",
                got=str(error).splitlines()[0][:120],
            ) from error
