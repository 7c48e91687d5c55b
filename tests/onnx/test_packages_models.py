"""Models of torchvision, timm and transformers as ONNX, by `as_torch`: the values of the call, also for other sizes.

A process for each, since it imports this library as `torch`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

IMAGES = """
import {package} as package
def image(n, h, w):
    return (torch.randn(n, 3, h, w),)
axes, example, others = ({{0: "n", 2: "h", 3: "w"}},), image(2, 64, 64), [image(1, 96, 70)]
whole = ({{0: "n"}},), image(1, 32, 32), [image(3, 32, 32)]
model = {model}
"""
WORDS = """
import transformers as package
class Named(torch.nn.Module):
    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names
    def forward(self, *args):
        return self.model(**dict(zip(self.names, args)), return_dict=True)[0]
def ids(n, length):
    return torch.randint(5, 90, (n, length))
def mask(n, length):
    return torch.ones(n, length, dtype=torch.int64)
small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
axes, example, others = ({{0: "n", 1: "t"}},), (ids(2, 7),), [(ids(3, 11),)]
model = {model}
"""
CHECK = """
for parameter in model.parameters():
    with torch.no_grad():
        if parameter.dim() > 1:
            parameter.normal_(0, (parameter.numel() / parameter.shape[0]) ** -0.5)
program = torch.onnx.export(model.eval(), example, dynamic_shapes=axes)
for given in (example, *others):
    with torch.no_grad():
        wanted = model(*given)
    wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
    for found, value in zip(program(*given), wanted, strict=True):
        top = float(value.abs().max())
        assert 1e-6 < top < 1e6, top
        torch.testing.assert_close(found, value, rtol=0, atol=1e-4 * top)
print("fine")
"""
START = "import weft.as_torch; weft.as_torch.install()\nimport torch\ntorch.manual_seed(0)\n"
VISION = {
    "resnet18": "package.models.resnet18()",
    "mobilenet": "package.models.mobilenet_v3_small()",
    "vgg11": "package.models.vgg11(init_weights=False)",
    "googlenet": "package.models.googlenet(init_weights=False, aux_logits=False)",
    "densenet": "package.models.densenet121()",
    "fcn": "package.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None)",
    "vit": "package.models.VisionTransformer(32, 8, 2, 2, 32, 64); axes, example, others = whole",
}
LANGUAGE = {
    "gpt2": "Named(package.GPT2LMHeadModel(package.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, "
    "use_cache=False)), 'input_ids')",
    "llama": "Named(package.LlamaForCausalLM(package.LlamaConfig(**small, num_key_value_heads=2, use_cache=False)), "
    "'input_ids')",
    "bert": "Named(package.BertModel(package.BertConfig(**small)), 'input_ids', 'attention_mask')\n"
    "axes, example, others = axes * 2, (ids(2, 7), mask(2, 7)), [(ids(3, 11), mask(3, 11))]",
    "t5": "Named(package.T5ForConditionalGeneration(package.T5Config(d_model=32, d_kv=8, num_layers=2, num_heads=4, "
    "d_ff=64, vocab_size=100, use_cache=False)), 'input_ids', 'decoder_input_ids')\n"
    "axes, example, others = (*axes, {0: 'n', 1: 's'}), (ids(2, 7), ids(2, 5)), [(ids(3, 11), ids(3, 6))]",
}


def _check(package: str, text: str, folder: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"not installed: {package}")
    sources = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join(filter(None, (sources, os.getenv("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + text + CHECK],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.split()[-1:] == ["fine"], done.stderr


@pytest.mark.parametrize("name", VISION)
def test_models_of_torchvision(name: str, tmp_path: Path) -> None:
    _check("torchvision", IMAGES.format(package="torchvision", model=VISION[name]), tmp_path)


def test_a_model_of_timm(tmp_path: Path) -> None:
    model = "package.create_model('convnext_atto')"
    _check("timm", IMAGES.format(package="timm", model=model), tmp_path)


@pytest.mark.parametrize("name", LANGUAGE)
def test_models_of_transformers(name: str, tmp_path: Path) -> None:
    _check("transformers", WORDS.format(model=LANGUAGE[name]), tmp_path)
