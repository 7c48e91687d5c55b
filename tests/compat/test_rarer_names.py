"""Names that few programs use do what they say: modules under way, counts of own functions, unsafe names in files,
batons, versions."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from oracle import torch


def test_modules_under_way() -> None:
    assert torch.__version__  # else it is skipped: what follows imports parts of PyTorch

    def told(T: Any) -> Any:
        tracker = import_module(f"{T.__name__}.utils.module_tracker").ModuleTracker()
        seen: list[Any] = []

        class Leaf(T.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                seen.append(sorted(tracker.parents))
                return x

        model = T.nn.Sequential(T.nn.Sequential(Leaf()), Leaf())
        with tracker:
            model(T.ones(1))
        model(T.ones(1))
        return seen

    assert told(weft) == told(torch)


def test_formulas_of_own_functions() -> None:
    from weft.utils import flop_counter

    def erf(x: Any) -> Any:
        return weft.erf(x)

    @flop_counter.register_flop_formula(erf)
    def count(shape: Any, out_shape: Any = None) -> int:
        assert shape == out_shape
        return 7 * int(shape[0])

    try:
        with flop_counter.FlopCounterMode(display=False) as counter:
            erf(weft.ones(3))
        assert counter.get_total_flops() == 21
    finally:
        del flop_counter._COUNTS["erf"]


def test_names_that_a_file_asks_for() -> None:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2), "layer": torch.nn.Linear(2, 2)}, stream)
    for T in (weft, torch):
        stream.seek(0)
        found = T.serialization.get_unsafe_globals_in_checkpoint(stream)
        assert found == ["torch.nn.modules.linear.Linear"]
    with pytest.raises(ValueError, match="archive"):
        weft.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"no archive"))


@pytest.mark.filterwarnings("ignore")
def test_versions_are_compared() -> None:
    for T in (weft, torch):
        check = T.serialization.check_module_version_greater_or_equal
        module = SimpleNamespace(__name__="m", __version__="1.2.3")
        assert [check(module, wanted) for wanted in ((1, 2), (1, 3), (1, 2, 3))] == [
            True,
            False,
            True,
        ]
        odd = SimpleNamespace(__name__="m", __version__="x")
        assert check(odd, (1,), False)
        with pytest.raises(RuntimeError):
            check(odd, (1,))


def test_one_process_holds_the_baton(tmp_path: Path) -> None:
    assert torch.__version__  # else it is skipped: what follows imports parts of PyTorch
    for T in (weft, torch):
        kind = import_module(f"{T.__name__}.utils.file_baton").FileBaton
        first, second = (kind(str(tmp_path / T.__name__)) for _ in range(2))
        assert first.try_acquire()
        assert not second.try_acquire()
        first.release()
        second.wait()
        assert second.try_acquire()
        second.release()


def test_complex_views_as_copies() -> None:
    for T in (weft, torch):
        x = T.tensor([1 + 2j])
        made = T.view_as_real_copy(x)
        made.zero_()
        assert x.tolist() == [1 + 2j]
        assert T.view_as_complex_copy(T.ones(1, 2)).tolist() == [1 + 1j]


def test_files_of_functions_hold_their_classes() -> None:
    assert torch.__version__  # else it is skipped: what follows imports parts of PyTorch
    for path, name in (
        ("nn.utils.spectral_norm", "SpectralNorm"),
        ("nn.utils.weight_norm", "WeightNorm"),
        ("nn.parallel.parallel_apply", "get_a_var"),
    ):
        for T in (weft, torch):
            assert hasattr(import_module(f"{T.__name__}.{path}"), name)
