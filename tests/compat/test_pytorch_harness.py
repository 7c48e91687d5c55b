"""What PyTorch's own tests are written with (`torch.testing._internal`) runs on Weft where PyTorch is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_as_torch import run

pytest.importorskip("torch")
pytest.importorskip("expecttest")
CASES = """
import torch
import weft
from torch.autograd.gradcheck import _get_numerical_jacobian
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCPU, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_nn import NNTestCase
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase, parametrize, run_tests
from torch.testing._internal.logging_tensor import LoggingTensor
import torch.testing._internal.autograd_function_db, torch.testing._internal.custom_op_db

assert torch.Tensor is weft.Tensor and len(op_db) > 500

class TestEquality(TestCase):
    def test_equal(self):
        self.assertEqual(torch.ones(3), [1.0, 1.0, 1.0])
        self.assertEqual({"a": [torch.ones(2)]}, {"a": [torch.ones(2)]})
        with self.assertRaisesRegex(AssertionError, "Tensor-likes are not close"):
            self.assertEqual(torch.ones(3), torch.zeros(3))
        with self.assertRaisesRegex(AssertionError, "values for attribute 'dtype' do not match"):
            self.assertEqual(torch.ones(3), torch.ones(3).double())

class TestEveryDevice(NNTestCase):
    @dtypes(torch.float32, torch.int64)
    def test_dtype(self, device, dtype):
        self.assertEqual(make_tensor((2,), device=device, dtype=dtype).dtype, dtype)

    @onlyCPU
    @ops([op for op in op_db if op.name == "cumsum"], allowed_dtypes=[torch.float32])
    def test_operator(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            op(sample.input, *sample.args, **sample.kwargs)

    @modules([entry for entry in module_db if entry.name == "nn.Linear"], allowed_dtypes=[torch.float32])
    def test_module(self, device, dtype, module_info, training):
        for given in module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=True, training=training
        ):
            made = module_info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            made(*given.forward_input.args, **given.forward_input.kwargs).sum().backward()

    @optims([entry for entry in optim_db if entry.name == "SGD"], dtypes=[torch.float32])
    def test_optimizer(self, device, dtype, optim_info):
        for given in optim_info.optim_inputs_func(device=device):
            optim_info.optim_cls([torch.nn.Parameter(torch.ones(2))], **given.kwargs)

    @parametrize("bias", [True, False])
    def test_jacobian(self, device, bias):
        layer = torch.nn.Linear(2, 3, bias=bias).double()
        x = torch.randn(2, dtype=torch.float64, requires_grad=True)
        [[by_input]] = _get_numerical_jacobian(layer, (x,), eps=1e-6)
        self.assertEqual(by_input, layer.weight.mT, atol=1e-6, rtol=1e-6)
        [[by_weight]] = _get_numerical_jacobian(lambda x: layer(x).sum(), (x,), target=layer.weight, eps=1e-6)
        self.assertEqual(by_weight, x.repeat(3).reshape(6, 1), atol=1e-6, rtol=1e-6)

instantiate_device_type_tests(TestEveryDevice, globals(), only_for="cpu")

if __name__ == "__main__":
    run_tests()
"""


def test_cases_written_with_it_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases for every device, type, operator, module and optimizer are made, compare tensors, and pass."""
    (tmp_path / "test_cases.py").write_text(CASES)
    monkeypatch.delenv(
        "CI", raising=False
    )  # where it is set, reports are written by another package
    done = run("-m", "weft", "run", "test_cases.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Ran 7 tests" in done.stderr and "skipped" not in done.stderr
