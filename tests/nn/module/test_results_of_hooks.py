"""What a module's hooks may return, and what becomes of it."""

from __future__ import annotations

import collections
import pickle
import warnings
from typing import Any, NamedTuple

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def test_a_state_hook_may_give_another_state(lib: Any) -> None:
    module = lib.nn.Linear(2, 2)
    module._register_state_dict_hook(lambda module, state, prefix, metadata: {"a": 1})
    assert module.state_dict() == {"a": 1}
    outer = lib.nn.Sequential(module, lib.nn.Linear(1, 1))
    assert list(outer.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    module._register_state_dict_hook(lambda module, state, prefix, metadata: {**state, "b": 2})
    assert module.state_dict() == {"a": 1, "b": 2}


def test_a_post_hook_changes_the_state_in_place(lib: Any) -> None:
    module = lib.nn.Linear(2, 2)
    handle = module.register_state_dict_post_hook(lambda module, state, *rest: state.pop("bias"))
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        module.state_dict()
    handle.remove()
    module.register_state_dict_post_hook(lambda module, state, *rest: state.clear())
    assert not module.state_dict()


def test_one_function_is_not_both(lib: Any) -> None:
    module = lib.nn.Linear(2, 2)

    def hook(*arguments: Any) -> None:
        """Nothing."""

    module.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict"):
        module._register_state_dict_hook(hook)


def test_a_hook_after_loading_returns_nothing(lib: Any) -> None:
    module = lib.nn.Linear(2, 2)
    module.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    assert module.load_state_dict({}, strict=False).missing_keys == []
    module.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        module.load_state_dict(module.state_dict())


class Pair(NamedTuple):
    first: Any
    second: Any


Record = collections.namedtuple("Record", "first second")
RESULTS = {
    "named tuple": lambda x: Pair(x * 2, x * 3),
    "record": lambda x: Record(x * 2, 3),
    "tuple": lambda x: (x * 2, x * 3),
    "list": lambda x: [x * 2, x * 3],
    "dictionary": lambda x: {"a": x * 2},
    "tensor": lambda x: x * 2,
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize(
    "register", ["register_full_backward_hook", "register_full_backward_pre_hook"]
)
def test_backward_hooks_leave_the_kind_of_the_result(lib: Any, result: str, register: str) -> None:
    class Gives(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return RESULTS[result](x)

    module, calls = Gives(), []
    getattr(module, register)(lambda *arguments: calls.append(1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = module(lib.ones(2, requires_grad=True))
    plain = RESULTS[result](lib.ones(2))
    assert type(found) is type(plain)
    assert bool(said) == (result in ("list", "dictionary"))
    values = found.values() if isinstance(found, dict) else found
    sum(v.sum() for v in values if isinstance(v, lib.Tensor)).backward()
    assert bool(calls) == (result not in ("list", "dictionary"))


TABLES = {
    "_state_dict_pre_hooks": "register_state_dict_pre_hook",
    "_state_dict_hooks": "_register_state_dict_hook",
    "_load_state_dict_pre_hooks": "_register_load_state_dict_pre_hook",
    "_load_state_dict_post_hooks": "register_load_state_dict_post_hook",
}


def ignored(*arguments: Any, **named: Any) -> None:
    """A hook that does nothing."""


@pytest.mark.parametrize("table", TABLES)
def test_hooks_on_the_state_have_tables(lib: Any, table: str) -> None:
    module = lib.nn.Linear(2, 2)
    assert len(getattr(module, table)) == 0
    handle = getattr(module, TABLES[table])(ignored)
    assert list(getattr(module, table)) == [handle.id]
    assert len(getattr(pickle.loads(pickle.dumps(module)), table)) == 1
    getattr(module, table).clear()
    module.load_state_dict(module.state_dict())


def test_a_module_that_had_no_tables_gets_hooks_again() -> None:
    module, called = weft.nn.Linear(1, 1), []
    del module._state_dict_pre_hooks
    module.state_dict()
    module.register_state_dict_pre_hook(lambda *arguments: called.append(1))
    module.state_dict()
    assert called == [1]
