"""State dictionaries of parallel models: by names that a model of one process has (PyTorch's
`torch.distributed.checkpoint.state_dict`).

Names of optimizer state are those of parameters, so that it fits another sharding. Tensors are `DTensor`s as they lie,
or whole ones with `full_state_dict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import weft
from weft.distributed.collectives.objects import broadcast_object_list
from weft.distributed.data_parallel.ddp import DistributedDataParallel
from weft.distributed.ranks import get_rank
from weft.distributed.sharding.dtensor import DTensor
from weft.distributed.world import is_initialized
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.nn.module.module import Module
from weft.nn.module.state_dict import IncompatibleKeys
from weft.optim.optimizer import Optimizer

State = dict[str, Any]
Optimizers = Optimizer | Iterable[Optimizer]
Value = Any  # an entry of a state
ModelState = Mapping[str, Value] | Mapping[Module, State]


@dataclass
class StateDictOptions:
    """Options: what a state dictionary has, and how it is loaded.

    Args:
        full_state_dict: whole tensors, on all ranks.
        cpu_offload: with `full_state_dict`, on the first rank alone.
        ignore_frozen_params: leave out parameters that require no gradient.
        strict: refuse missing and unexpected names, as `load_state_dict` does.
        broadcast_from_rank0: the first rank has the (whole) state; the others get it.
        flatten_optimizer_state_dict: one level of names: "state.fc.weight.exp_avg", "param_groups.fc.weight.lr".
        keep_submodule_prefixes: with `submodules`: False: names within the module, of which there is to be one.
        dsd_fqn_modifiers: accepted.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
        >>> model = weft.nn.Linear(3, 2)
        >>> model.bias.requires_grad_(False).shape
        weft.Size([2])
        >>> list(get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True)))
        ['weight']
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    """Options, by default those that change nothing. Errors: ValueError for such as contradict each other."""
    wanted = StateDictOptions() if options is None else options
    if wanted.broadcast_from_rank0 and not wanted.full_state_dict:
        raise ArgumentError(
            "full_state_dict must be True when broadcast_from_rank0 is True.",
            expected="StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)",
            got="full_state_dict=False",
            fix="pass full_state_dict=True: the first rank has a whole state",
        )
    return wanted


# -- names and values --------------------------------------------------------------------------------------------------


def _plain_name(model: Module, name: str) -> str:
    """A name of a parameter or buffer, without the modules that wrap others."""
    kept, module = [], model
    for part in name.split("."):
        is_wrapped = isinstance(module, DistributedDataParallel) and part == "module"
        if not is_wrapped and part != "_orig_mod":  # of what `compile` was given
            kept.append(part)
        module = getattr(module, part, module)
    return ".".join(kept)


def _names(model: Module) -> dict[int, str]:
    """The plain name of each parameter, by its identity; of one that has several names, the first."""
    return {id(p): _plain_name(model, name) for name, p in model.named_parameters()}


def _given(value: Value, options: StateDictOptions) -> Any:
    """A value as the options have it."""
    if isinstance(value, Mapping):
        return {key: _given(entry, options) for key, entry in value.items()}
    if options.full_state_dict and isinstance(value, DTensor):
        with weft.no_grad():
            return value.full_tensor()
    return value


def _kept(state: State, options: StateDictOptions) -> State:
    """A state; on ranks that are to have none, an empty one."""
    is_first = not is_initialized() or get_rank() == 0
    has_state = is_first or not (options.full_state_dict and options.cpu_offload)
    return state if has_state else {}


def _of_first_rank(state: State, layout_of: Callable[[str], object]) -> State:
    """The state that the first rank has, on all: one entry after the other, and of each no more than the rank's part
    where the name has a layout of parts."""
    said: list[Any] = [list(state)]
    broadcast_object_list(said, 0)
    found = {}
    for key in said[0]:
        entry: list[Any] = [state.get(key)]
        broadcast_object_list(entry, 0)
        found[key] = _laid(entry[0], layout_of(key))
    return found


def _laid(value: Value, layout: object) -> Any:
    """An entry, its whole tensors laid out as another one of their shape."""
    if isinstance(value, Mapping):
        return {key: _laid(entry, layout) for key, entry in value.items()}
    is_like = isinstance(layout, DTensor) and isinstance(value, Tensor)
    if is_like and not isinstance(value, DTensor) and value.shape == layout.shape:  # type: ignore[attr-defined]
        return layout.like(value)  # type: ignore[attr-defined]
    return value


# -- models ------------------------------------------------------------------------------------------------------------


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> State:
    """The parameters and buffers of a model by their plain names; of some of its modules with `submodules`.

    Args:
        model: the model.
        submodules: modules of the model, whose entries are wanted; None: all.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_model_state_dict
        >>> sorted(get_model_state_dict(weft.nn.Linear(3, 2)))
        ['bias', 'weight']
    """
    wanted = _checked(options)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    prefixes = [f"{n}." for n, m in model.named_modules() if submodules and m in submodules]
    found = {}
    for name, value in model.state_dict().items():
        prefix = next(filter(name.startswith, prefixes), None) if submodules else ""
        if prefix is None or (wanted.ignore_frozen_params and name in frozen):
            continue
        plain = _plain_name(model, name)
        if not wanted.keep_submodule_prefixes and prefix:
            plain = plain.removeprefix(f"{_plain_name(model, prefix[:-1])}.")
        found[plain] = _given(value, wanted)
    return _kept(found, wanted)


def _by_names(model: Module, state: ModelState) -> State:
    """A state by plain names, of one that has a state for each of some modules, too."""
    modules = {module: name for name, module in model.named_modules()}
    found: State = {}
    for key, value in state.items():
        if isinstance(key, Module):
            prefix = f"{_plain_name(model, modules[key])}." if modules[key] else ""
            found |= {f"{prefix}{name}": entry for name, entry in value.items()}
        else:
            found[key] = value
    return found


def set_model_state_dict(
    model: Module, model_state_dict: ModelState, *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Load a model's state by plain names: whole tensors, or such that lie over ranks anyhow. Missing and unexpected
    names are the result, and errors with `strict`.

    Args:
        model: the model.
        model_state_dict: the state, by plain names.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
        >>> model, other = weft.nn.Linear(3, 2), weft.nn.Linear(3, 2)
        >>> _ = set_model_state_dict(other, get_model_state_dict(model))
        >>> weft.equal(other.weight, model.weight)
        True
    """
    wanted = _checked(options)
    own = {_plain_name(model, name): (name, value) for name, value in model.state_dict().items()}
    state = _by_names(model, model_state_dict)
    if wanted.broadcast_from_rank0:
        state = _of_first_rank(state, lambda name: own.get(name, (name, None))[1])
    renamed = {own.get(name, (name,))[0]: value for name, value in state.items()}
    has_no_values = any(isinstance(v, Tensor) and v.is_meta for _, v in own.values())
    assigns = wanted.full_state_dict and has_no_values
    return model.load_state_dict(renamed, strict=wanted.strict, assign=assigns)


# -- optimizers --------------------------------------------------------------------------------------------------------


def _listed(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _begin(optimizer: Optimizer) -> None:
    """Make the state of an optimizer that has none, by a step that changes nothing; none where there are gradients."""
    has_gradients = any(p.grad is not None for g in optimizer.param_groups for p in g["params"])
    if optimizer.state or has_gradients:
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = weft.tensor(0.0) if isinstance(group.get("lr"), Tensor) else 0.0
        for parameter in group["params"]:
            parameter.grad = weft.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step(None)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
        for parameter in group["params"]:
            parameter.grad = None


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> State:
    """The state of optimizers by the plain names of parameters, with groups that list names. An optimizer without
    state gets one.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        submodules: modules of the model, whose entries are wanted; None: all.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = weft.nn.Linear(3, 2)
        >>> state = get_optimizer_state_dict(model, weft.optim.SGD(model.parameters(), lr=0.1))
        >>> state["param_groups"][0]["params"]  # names in place of numbers
        ['weight', 'bias']
    """
    wanted = _checked(options)
    names = _names(model)
    listed = _listed(optimizers)
    if not listed:
        return {}
    states: State = {}
    groups: list[State] = []
    for optimizer in listed:
        _begin(optimizer)
        found = optimizer.state_dict()
        order = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        states |= {order[number]: _given(state, wanted) for number, state in found["state"].items()}
        groups += [{**g, "params": [order[n] for n in g["params"]]} for g in found["param_groups"]]
    state: State = {"state": states, "param_groups": groups}
    if wanted.flatten_optimizer_state_dict:
        state = _flattened(state)
    return _kept(state, wanted)


def _flattened(state: State) -> State:
    flat = {
        f"state.{name}.{key}": value
        for name, entries in state["state"].items()
        for key, value in entries.items()
    }
    for group in state["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
    return flat


def _unflattened(flat: State, optimizers: list[Optimizer], names: dict[int, str]) -> State:
    """The state of flat names, with the groups that optimizers have."""
    entries: dict[str, State] = {"state": {}, "param_groups": {}}
    for name, value in flat.items():
        kind, _, rest = name.partition(".")
        parameter, _, key = rest.rpartition(".")
        entries[kind].setdefault(parameter, {})[key] = value
    groups = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            listed = [names[id(p)] for p in group["params"]]
            groups.append({**entries["param_groups"].get(listed[0], {}), "params": listed})
    return {"state": entries["state"], "param_groups": groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: State,
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load the state of optimizers by the plain names of parameters; flat names, too.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        optim_state_dict: the state, by plain names of parameters.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Raises:
        ValueError for a parameter that no group of the state lists.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
        >>> model = weft.nn.Linear(3, 2)
        >>> optimizer, other = (weft.optim.SGD(model.parameters(), lr=lr) for lr in (0.1, 0.5))
        >>> set_optimizer_state_dict(model, other, get_optimizer_state_dict(model, optimizer))
        >>> other.param_groups[0]["lr"]
        0.1
    """
    wanted = _checked(options)
    listed, names = _listed(optimizers), _names(model)
    state = optim_state_dict
    if wanted.broadcast_from_rank0:
        state = _optimizer_state_of_first_rank(model, state)
    if state and "param_groups" not in state:
        state = _unflattened(state, listed, names)
    for optimizer in listed:
        optimizer.load_state_dict(_numbered(optimizer, names, state))


def _optimizer_state_of_first_rank(model: Module, state: State) -> State:
    """The state of optimizers that the first rank has, on all: of a parameter no more than the rank's part."""
    layouts = {_plain_name(model, name): p for name, p in model.named_parameters()}
    said: list[Any] = [sorted(set(state) & {"state", "param_groups"})]
    broadcast_object_list(said, 0)
    if not said[0]:  # flat names: "state.", a parameter's, and that of an entry
        return _of_first_rank(state, lambda name: layouts.get(_parameter_of(name)))
    groups: list[Any] = [state.get("param_groups")]
    broadcast_object_list(groups, 0)
    return {"state": _of_first_rank(state.get("state", {}), layouts.get), "param_groups": groups[0]}


def _parameter_of(flat: str) -> str:
    """The parameter of a flat name."""
    return flat.partition(".")[2].rpartition(".")[0]


def _numbered(optimizer: Optimizer, names: dict[int, str], state: State) -> State:
    """The state as one optimizer has it: by numbers of its parameters."""
    groups: list[State] = []
    order: list[str] = []
    for group in optimizer.param_groups:
        own = [names[id(p)] for p in group["params"]]
        saved = next(_groups_with(state, own[0]), None)
        if saved is None:
            raise ArgumentError(
                f"set_optimizer_state_dict: no group of the state has {own[0]}",
                expected="a group for each parameter of the optimizer",
                got=str([g["params"] for g in state["param_groups"]])[:200],
                fix="save and load the state of one model",
            )
        groups.append({**saved, "params": [len(order) + n for n in range(len(own))]})
        order += own
    numbers = {n: state["state"][name] for n, name in enumerate(order) if name in state["state"]}
    return {"state": numbers, "param_groups": groups}


def _groups_with(state: State, name: str) -> Iterator[State]:
    return (group for group in state["param_groups"] if name in group["params"])


# -- both --------------------------------------------------------------------------------------------------------------


def get_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[State, State]:
    """`get_model_state_dict` and `get_optimizer_state_dict`.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        submodules: modules of the model, whose entries are wanted; None: all.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_state_dict
        >>> model = weft.nn.Linear(3, 2)
        >>> of_model, of_optimizer = get_state_dict(model, weft.optim.Adam(model.parameters()))
        >>> sorted(of_model), sorted(of_optimizer)
        (['bias', 'weight'], ['param_groups', 'state'])
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: State,
    optim_state_dict: State,
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """`set_model_state_dict` and `set_optimizer_state_dict`.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        model_state_dict: the state, by plain names.
        optim_state_dict: the state, by plain names of parameters.
        options: `StateDictOptions`: whole or in parts, strict or not; None: their defaults.

    Example:
        >>> import weft
        >>> from weft.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> model = weft.nn.Linear(3, 2)
        >>> optimizer, other = (weft.optim.SGD(model.parameters(), lr=lr) for lr in (0.1, 0.5))
        >>> of_model, of_optimizer = get_state_dict(model, optimizer)
        >>> _ = set_state_dict(model, other, model_state_dict=of_model, optim_state_dict=of_optimizer)
        >>> other.param_groups[0]["lr"]
        0.1
    """
    loaded = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return loaded
