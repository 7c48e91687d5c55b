"""Tensor parallel: modules whose parameters lie over a mesh, each rank computing a part of one product (PyTorch's
`torch.distributed.tensor.parallel`).

A style says how the parameters of a module lie, and how its inputs and outputs do; the operations themselves are those
of `DTensor`. `parallelize_module` gives styles to modules by their names.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.device_mesh import DeviceMesh, current_mesh
from weft.distributed.placements import Placement, Replicate, Shard
from weft.distributed.sharding import dtensor
from weft.distributed.sharding.distribute import distribute_module, distribute_tensor
from weft.distributed.sharding.dtensor import (
    Arguments,
    DTensor,
    Function,
    Named,
    Outputs,
    local,
)
from weft.distributed.sharding.layout import need_group, need_placements
from weft.distributed.sharding.redistribute import linear_map
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError
from weft.nn import Embedding, Linear
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter

Placed = dict[str, Placement]  # by the names of parameters
Wanted = Placement | Sequence[Placement | None] | None


class ParallelStyle:
    """A way to share a module out; styles of one's own define `_apply`."""

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError


def _laid(value: object, mesh: DeviceMesh, comes: Placement, wanted: Placement) -> Any:
    """A value of a module as a distributed tensor: plain ones come as `comes`, all go as `wanted`."""
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"expecting input to be a Tensor or DTensor, but got {value}",
            expected="a tensor",
            got=type(value).__name__,
            fix="pass what is no tensor by keyword",
        )
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [comes])
    placements = need_placements([wanted], mesh, value.ndim)
    return value if value.placements == placements else value.redistribute(placements=placements)


class _Parallel(ParallelStyle):
    """A style whose first input and whose output are laid: `_inputs` is how plain inputs come, and how the module takes
    them; `_output` is how the output goes, or None for as it is."""

    _inputs: tuple[Placement, Placement]
    _output: Placement | None
    use_local_output: bool

    def _placed(self, module: Module) -> Placed:
        """The placements of parameters of the module, where they are not replicated."""
        raise NotImplementedError

    def _taken(self, module: Module) -> tuple[Placement, Placement]:
        return self._inputs

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        placed = self._placed(module)
        comes, wanted = self._taken(module)

        def lay(name: str, one: Module, mesh: DeviceMesh) -> None:
            for key, parameter in list(one._parameters.items()):
                if isinstance(parameter, Parameter) and not isinstance(parameter, DTensor):
                    self._lay(one, key, parameter, placed.get(key, Replicate()), mesh)

        def take(one: Module, inputs: Arguments, mesh: DeviceMesh) -> Any:
            return (_laid(inputs[0], mesh, comes, wanted), *inputs[1:])

        def give(one: Module, output: Outputs, mesh: DeviceMesh) -> Any:
            if self._output is not None:
                output = _laid(output, mesh, self._output, self._output)
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, lay, take, give)

    def _lay(
        self,
        module: Module,
        name: str,
        parameter: Parameter,
        placement: Placement,
        mesh: DeviceMesh,
    ) -> None:
        laid = distribute_tensor(parameter, mesh, [placement], src_data_rank=self.src_data_rank)
        module._parameters[name] = laid  # type: ignore[assignment]  # a parameter by its flag

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self._inputs[:1]}, output_layouts={(self._output,)}, "
            f"use_local_output={self.use_local_output})"
        )


def _need_known(style: str, module: Module) -> None:
    if not isinstance(module, Linear | Embedding):
        raise NotDefinedError(
            f"{style} currently only support nn.Linear and nn.Embedding!",
            expected="a Linear or an Embedding",
            got=type(module).__name__,
            fix="name its linear layers in the plan",
        )


class ColwiseParallel(_Parallel):
    """Each rank computes some of the outputs of a Linear, or columns of an Embedding.

    Args:
        input_layouts: how a plain input comes; by default Replicate().
        output_layouts: how the output goes; by default Shard(-1), as it is computed.
        use_local_output: give this rank's part as a plain tensor.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor.parallel import ColwiseParallel, parallelize_module
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> layer = parallelize_module(weft.nn.Linear(4, 8), mesh, ColwiseParallel())
        >>> layer.weight.placements  # each rank has some of the outputs
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self._inputs = input_layouts or Replicate(), Replicate()
        self._output = output_layouts or Shard(-1)
        self.use_local_output = use_local_output

    def _placed(self, module: Module) -> Placed:
        _need_known("ColwiseParallel", module)
        if isinstance(module, Embedding):
            return {"weight": Shard(1)}
        return {"weight": Shard(0), "bias": Shard(0)}


class RowwiseParallel(_Parallel):
    """Each rank takes some of the inputs of a Linear, or rows of an Embedding; the outputs of all are summed.

    Args:
        input_layouts: how a plain input comes; by default Shard(-1).
        output_layouts: how the output goes; by default Replicate().
        use_local_output: give this rank's part as a plain tensor.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor.parallel import RowwiseParallel, parallelize_module
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> layer = parallelize_module(weft.nn.Linear(4, 8), mesh, RowwiseParallel())
        >>> layer.weight.placements  # each rank has some of the inputs
        (Shard(dim=1),)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self._inputs = input_layouts or Shard(-1), Shard(-1)
        self._output = output_layouts or Replicate()
        self.use_local_output = use_local_output

    def _placed(self, module: Module) -> Placed:
        _need_known("RowwiseParallel", module)
        return {"weight": Shard(0 if isinstance(module, Embedding) else 1)}

    def _taken(self, module: Module) -> tuple[Placement, Placement]:
        return (self._inputs[0], Replicate()) if isinstance(module, Embedding) else self._inputs


class SequenceParallel(_Parallel):
    """Each rank computes a normalization or dropout for a part of the sequence; parameters are replicated, and equal on
    all ranks at the beginning.

    Args:
        sequence_dim: the dimension that is shared out, of inputs and outputs.
        use_local_output: give this rank's part as a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self._inputs = Shard(sequence_dim), Shard(sequence_dim)
        self._output = None
        self.use_local_output = use_local_output

    def _placed(self, module: Module) -> Placed:
        return {}

    def _lay(
        self,
        module: Module,
        name: str,
        parameter: Parameter,
        placement: Placement,
        mesh: DeviceMesh,
    ) -> None:
        laid = distribute_tensor(parameter, mesh, [placement], src_data_rank=None)
        module._parameters[name] = laid  # type: ignore[assignment]  # a parameter by its flag

    def __repr__(self) -> str:
        dim = self._inputs[0].dim  # type: ignore[attr-defined]
        return f"SequenceParallel(sequence_dim={dim}, use_local_output={self.use_local_output})"


# -- inputs and outputs alone ------------------------------------------------------------------------------------------


def _listed(wanted: Wanted) -> tuple[Placement | None, ...] | None:
    return (wanted,) if isinstance(wanted, Placement) else None if wanted is None else tuple(wanted)


def _need_as_many(what: str, one: Sequence[object], other: Sequence[object]) -> None:
    if len(one) != len(other):
        raise ArgumentError(
            f"{what} should have same length!",
            expected=f"{len(other)} entries",
            got=str(len(one)),
            fix="give a placement, or None, for each",
        )


class _Prepare(ParallelStyle):
    """A style that changes how values lie, and no parameters."""

    use_local_output: bool

    def _one(
        self, value: object, comes: Placement | None, wanted: Placement | None, mesh: DeviceMesh
    ) -> Any:
        if comes is None:
            return value
        laid = _laid(value, mesh, comes, wanted or comes)
        return laid.to_local() if self.use_local_output else laid


class PrepareModuleInput(_Prepare):
    """Lays the inputs of a module: plain ones come as `input_layouts`, and go as `desired_input_layouts`; None for one
    that stays as it is.

    Args:
        input_layouts, desired_input_layouts: a placement, or one for each positional input.
        input_kwarg_layouts, desired_input_kwarg_layouts: by the names of inputs.
        use_local_output: give the module this rank's parts as plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Wanted = None,
        desired_input_layouts: Wanted = None,
        input_kwarg_layouts: Placed | None = None,
        desired_input_kwarg_layouts: Placed | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _listed(input_layouts)
        self.desired_input_layouts = _listed(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        names = "input_layouts and desired_input_layouts"
        _need_as_many(names, self.input_layouts or (), self.desired_input_layouts or ())
        names = "input_kwarg_layouts and desired_input_kwarg_layouts"
        _need_as_many(names, self.input_kwarg_layouts, self.desired_input_kwarg_layouts)  # type: ignore[arg-type]

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def take(one: Module, inputs: Arguments, named: Named) -> Any:
            comes, wanted = self.input_layouts, self.desired_input_layouts
            if comes is not None and wanted is not None:
                _need_as_many("module inputs and input_layouts", inputs, comes)
                rows = zip(inputs, comes, wanted, strict=True)
                inputs = tuple(self._one(value, a, b, device_mesh) for value, a, b in rows)
            known, sought = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
            return inputs, {
                name: self._one(value, known.get(name), sought.get(name), device_mesh)
                for name, value in named.items()
            }

        module.register_forward_pre_hook(take, with_kwargs=True)
        return module


class PrepareModuleOutput(_Prepare):
    """Lays the outputs of a module: plain ones come as `output_layouts`, all go as `desired_output_layouts`.

    Args:
        output_layouts, desired_output_layouts: a placement, or one for each output; None for one that stays.
        use_local_output: give this rank's parts as plain tensors.
    """

    def __init__(
        self,
        *,
        output_layouts: Wanted,
        desired_output_layouts: Wanted,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _listed(output_layouts) or ()
        self.desired_output_layouts = _listed(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        names = "output_layouts and desired_output_layouts"
        _need_as_many(names, self.output_layouts, self.desired_output_layouts)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def give(one: Module, inputs: object, outputs: Outputs) -> Any:
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            _need_as_many("module outputs and output_layouts", several, self.output_layouts)
            rows = zip(several, self.output_layouts, self.desired_output_layouts, strict=True)
            made = tuple(
                self._one(value, comes, wanted, device_mesh) for value, comes, wanted in rows
            )
            return made[0] if len(made) == 1 else made

        module.register_forward_hook(give)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` in one, with their arguments; `use_local_input` is the former's
    `use_local_output`.

    Args:
        input_layouts: how inputs lie; None: they are left alone.
        desired_input_layouts: how the module wants them; None: as they lie.
        input_kwarg_layouts: the same of inputs by name; None: they are left alone.
        desired_input_kwarg_layouts: how the module wants these; None: as they lie.
        use_local_input: True: the module is given this rank's parts. Default: False.
        output_layouts: how outputs lie.
        desired_output_layouts: how they are wanted.
        use_local_output: True: what comes out are this rank's parts. Default: True.
    """

    def __init__(
        self,
        *,
        input_layouts: Wanted = None,
        desired_input_layouts: Wanted = None,
        input_kwarg_layouts: Placed | None = None,
        desired_input_kwarg_layouts: Placed | None = None,
        use_local_input: bool = False,
        output_layouts: Wanted,
        desired_output_layouts: Wanted,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


# -- plans -------------------------------------------------------------------------------------------------------------

Plan = ParallelStyle | dict[str, ParallelStyle]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Plan | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """The module itself, with modules below it shared out as a plan says.

    Warns of names that no module has.

    Args:
        module: the module, which is changed.
        device_mesh: the ranks, a mesh of one dimension; by default all.
        parallelize_plan: a style, or styles by names of modules ("layers.*.fc1"; "" is the module itself).
        src_data_rank: the rank whose parameters count; None for each rank's own.

    Raises:
        TypeError for another plan.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> mlp = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Linear(8, 4))
        >>> mlp = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        >>> mlp[0].weight.placements, mlp(weft.ones(2, 4)).shape
        ((Shard(dim=0),), weft.Size([2, 4]))
        >>> dist.destroy_process_group()
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided: parallelize_module does nothing.", stacklevel=2
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise ArgumentTypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} "
            "found!",
            expected="a style, or a dictionary of styles",
            got=type(parallelize_plan).__name__,
            fix="pass {'fc1': ColwiseParallel()}",
        )
    for pattern, style in parallelize_plan.items():
        found = _matching(module, pattern.split(".") if pattern else [])
        if not found:
            text = f"Parallelize plan key '{pattern}' could not be resolved: no submodule matches it in {module}"
            warnings.warn(text, stacklevel=2)
        for one in found:
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Module, names: list[str]) -> list[Module]:
    """The modules below one whose names, one below the other, match."""
    found = [module]
    for pattern in names:
        found = [
            child
            for parent in found
            for name, child in parent.named_children()
            if fnmatch(name, pattern)
        ]
    return found


# -- cross entropy of logits whose classes are shared out --------------------------------------------------------------


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A context in which `cross_entropy` of logits that lie as Shard over their classes is computed where they lie:
    ranks send each other a largest value, a sum and a term for each example, and not the logits."""
    dtensor.answers["cross_entropy"] = _cross_entropy
    try:
        yield
    finally:
        del dtensor.answers["cross_entropy"]


def _cross_entropy(plain: Function, args: Arguments, kwargs: Named) -> Any:
    """The cross entropy of this rank's classes, or NotImplemented for logits that lie otherwise."""
    return _entropy_of_parts(*args, **kwargs)


def _entropy_of_parts(
    input: DTensor,
    target: Tensor,
    weight: None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    dim = 1 if input.ndim > 1 else 0
    placements = input.placements
    shared = [d for d, p in enumerate(placements) if p.is_shard(dim)]
    if len(shared) != 1 or weight is not None or label_smoothing or len(placements) != 1:
        return NotImplemented
    group = need_group(input.spread.group(shared[0]))
    logits = local(input)
    wanted = local(target.full_tensor()) if isinstance(target, DTensor) else target  # type: ignore[operator]
    first, count = input.spread.bounds()[dim]
    with weft.no_grad():
        most = record("all_reduce", logits.amax(dim, keepdim=True), group, ReduceOp.MAX)
    shifted = logits - most

    def over_ranks(x: Tensor) -> Any:
        return linear_map(x, lambda v: record("all_reduce", v, group), lambda g: g)

    logs = over_ranks(shifted.exp().sum(dim)).log()
    ignored = wanted == ignore_index
    places = wanted - first
    outside = (places < 0) | (places >= count) | ignored
    picked = shifted.gather(dim, places.masked_fill(outside, 0).unsqueeze(dim)).squeeze(dim)
    picked = over_ranks(picked.masked_fill(outside, 0.0))
    losses = (logs - picked).masked_fill(ignored, 0.0)
    if reduction == "mean":
        losses = losses.sum() / (~ignored).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return DTensor.from_local(losses, input.device_mesh, [Replicate()])
