"""The algorithms of the optimizers as functions of lists: parameters, gradients, and state, all written to.

They are called as `weft.optim.adam.adam` and its like. Each runs the update of its class on a state that is made of
the lists, so that there is one algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.optim.adam import Adam, AdamW
from weft.optim.adaptive import Adadelta, Adagrad, Adamax, RMSprop, Rprop
from weft.optim.moments import ASGD, NAdam, RAdam
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD


class _Form(NamedTuple):
    """Of an algorithm its class, what its lists are called and what of the state they hold, and which words of the
    function are parts of one option of the class."""

    kind: type[Optimizer]
    lists: dict[str, str]
    pairs: dict[str, tuple[str, str]] = {}


_BETAS = {"betas": ("beta1", "beta2")}
_MOMENTS = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq"}
_ADAM = {**_MOMENTS, "max_exp_avg_sqs": "max_exp_avg_sq", "state_steps": "step"}
_STEPS = {"state_steps": "step"}
_FORMS = {
    "adadelta": _Form(Adadelta, {"square_avgs": "square_avg", "acc_deltas": "acc_delta", **_STEPS}),
    "adagrad": _Form(Adagrad, {"state_sums": "sum", **_STEPS}),
    "adam": _Form(Adam, _ADAM, _BETAS),
    "adamax": _Form(Adamax, {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", **_STEPS}, _BETAS),
    "adamw": _Form(AdamW, _ADAM, _BETAS),
    "asgd": _Form(ASGD, {"axs": "ax", "mus": "mu", "etas": "eta", **_STEPS}),
    "nadam": _Form(NAdam, {**_MOMENTS, "mu_products": "mu_product", **_STEPS}, _BETAS),
    "radam": _Form(RAdam, {**_MOMENTS, **_STEPS}, _BETAS),
    "rmsprop": _Form(
        RMSprop,
        {
            "square_avgs": "square_avg",
            "grad_avgs": "grad_avg",
            "momentum_buffer_list": "momentum_buffer",
            **_STEPS,
        },
    ),
    "rprop": _Form(
        Rprop,
        {"prevs": "prev", "step_sizes": "step_size", **_STEPS},
        {"etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")},
    ),
    "sgd": _Form(SGD, {"momentum_buffer_list": "momentum_buffer"}),
}
# How a step runs elsewhere: nothing of it changes what is computed here.
_IGNORED = ("foreach", "fused", "capturable", "has_complex", "has_sparse_grad", "grad_scale", "found_inf")  # fmt: skip


def _options(form: _Form, given: dict[str, object]) -> dict[str, Any]:
    """The options of the class."""
    options = {name: value for name, value in given.items() if name not in _IGNORED}
    for name, words in form.pairs.items():
        options[name] = tuple(options.pop(word) for word in words)
    return options


def _number(name: str, entry: object, counts: tuple[str, ...]) -> Any:
    """A state's entry as the class keeps it."""
    return entry.item() if name in counts and isinstance(entry, Tensor) else entry


def _store(rows: list[Tensor], place: int, entry: Any) -> None:
    """Put what a step has made of an entry where it came from."""
    if isinstance(rows[place], Tensor) and not isinstance(entry, Tensor):
        rows[place].fill_(entry)
    elif entry is not rows[place]:
        rows[place] = entry


def _step(
    form: _Form, params: list[Any], grads: list[Any], lists: dict[str, Any], given: Any
) -> None:
    """One step of the algorithm on the lists."""
    optimizer = form.kind([weft.zeros(1)], **_options(form, given))
    counts = optimizer._counts
    kept = {name: lists[word] for word, name in form.lists.items() if lists.get(word)}
    before = [parameter.grad for parameter in params]
    try:
        for place, (parameter, gradient) in enumerate(zip(params, grads, strict=True)):
            parameter.grad = gradient
            entries = {name: rows[place] for name, rows in kept.items()}
            optimizer.state[parameter] = {
                name: _number(name, entry, counts)
                for name, entry in entries.items()
                if entry is not None
            }
        with weft.no_grad():
            optimizer._update_group({**optimizer.param_groups[0], "params": params})
            for place, parameter in enumerate(params):
                for name, rows in kept.items():
                    _store(rows, place, optimizer.state[parameter].get(name))
    finally:
        for parameter, gradient in zip(params, before, strict=True):
            parameter.grad = gradient


def _function(name: str) -> Callable[..., None]:
    form = _FORMS[name]

    def function(
        params: list[object], grads: list[object], *lists: object, **options: object
    ) -> None:
        words = [*form.lists, *_AFTER.get(name, ())]
        given = {**dict(zip(words, lists, strict=False)), **options}
        taken = {word: given.pop(word, None) for word in form.lists}
        _step(form, list(params), list(grads), taken, given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A step of {form.kind.__name__} on lists, which are written to."
    return function


# Options that may be given by position, behind the lists.
_AFTER = {"sgd": ("has_sparse_grad", "foreach"), "adagrad": ("fused",)}
_AFTER |= {name: ("foreach",) for name in ("adam", "adamw", "adamax", "asgd", "rmsprop", "rprop")}
adadelta, adagrad, adam, adamax, adamw, asgd, nadam, radam, rmsprop, rprop, sgd = map(
    _function, sorted(_FORMS)
)
