"""The result of `weft.onnx.export`: a model, to be saved or run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import weft
from weft.errors import ArgumentError
from weft.onnx.errors import missing
from weft.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from onnx import ModelProto
    from weft.engine.frontend.tensor import Tensor

MOST_INLINE_BYTES = 2_000_000_000  # a file of protocol buffers has less than 2 GiB
LEAST_EXTERNAL_BYTES = 256  # smaller values stay in the file


class ONNXProgram:
    """A model in the format ONNX, as `weft.onnx.export` makes it.

    Args:
        model_proto: the model, of the class `onnx.ModelProto`.

    Example:
        >>> import weft
        >>> program = weft.onnx.export(weft.nn.Linear(3, 2), (weft.ones(4, 3),))  # doctest: +SKIP
        >>> program(weft.ones(4, 3))  # by onnxruntime  # doctest: +SKIP
    """

    def __init__(self, model_proto: ModelProto) -> None:
        self.model_proto = model_proto
        self._session: Any = None

    @property
    def model(self) -> ModelProto:
        """The model."""
        return self.model_proto

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [value.name for value in self.model_proto.graph.input]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return [value.name for value in self.model_proto.graph.output]

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model into a file.

        Args:
            destination: the path.
            include_initializers: False: the weights are left out, and are inputs then.
            keep_initializers_as_inputs: True: the weights are in the file, and inputs too.
            external_data: True: weights go to a file `.data` beside it; None: where they take 2 GB or more.
        """
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        if keep_initializers_as_inputs or not include_initializers:
            _add_inputs(model)
        if not include_initializers:
            del model.graph.initializer[:]
        path = Path(destination)
        large = model.ByteSize() >= MOST_INLINE_BYTES
        if external_data or (external_data is None and large):
            (path.parent / f"{path.name}.data").unlink(missing_ok=True)  # onnx would add to it
            onnx.save(
                model,
                path,
                save_as_external_data=True,
                location=f"{path.name}.data",
                size_threshold=LEAST_EXTERNAL_BYTES,
            )
        else:
            onnx.save(model, path)

    def initialize_inference_session(self) -> Any:
        """The session of onnxruntime that runs the model, made once. Errors: ImportError where it is not installed."""
        if self._session is None:
            try:
                import onnxruntime
            except ImportError:
                raise missing("onnxruntime") from None
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            self._session = onnxruntime.InferenceSession(
                self.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        return self._session

    def __call__(self, *args: object, **kwargs: object) -> Sequence[Tensor]:
        """Run the model by onnxruntime, on the tensors among the arguments; the outputs in a list.

        Args:
            *args: the arguments of the exported call.
            **kwargs: the same by name.
        """
        given = [leaf for leaf in tree_leaves([args, kwargs]) if isinstance(leaf, weft.Tensor)]
        session = self.initialize_inference_session()
        names = [value.name for value in session.get_inputs()]
        if len(given) != len(names):
            raise ArgumentError(
                "ONNXProgram: other tensors than the exported call had",
                expected=f"{len(names)} tensors: {', '.join(names)}",
                got=f"{len(given)}",
            )
        feeds = {name: x.detach().numpy() for name, x in zip(names, given, strict=True)}
        return [weft.from_numpy(array.copy()) for array in session.run(None, feeds)]

    def optimize(self) -> None:
        """Nothing: onnxruntime optimizes what it loads."""

    def release(self) -> None:
        """Let go of the session."""
        self._session = None

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return (
            f"ONNXProgram({len(graph.node)} nodes, {len(graph.initializer)} constants, inputs {self.input_names}, "
            f"outputs {self.output_names}, opset {self.model_proto.opset_import[0].version})"
        )


def _add_inputs(model: ModelProto) -> None:
    from onnx import helper

    known = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in known:
            made = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            model.graph.input.append(made)
