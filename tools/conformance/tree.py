"""Every public name of PyTorch's modules, and whether Weft has it under the same path: `python tools/conformance tree`.

In: PyTorch, walked module by module. Out: docs/names.md: for each module how many names it has, how many are here, and
which are not, under the reason of their kind; what has none is not built yet. What is walked past is listed with why.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import weft
from conformance.names import has

# Modules that are walked past, by how their names begin.
LEFT_OUT = {
    "other devices": r"torch\.(cuda|mps|xpu|mtia|backends\.(xeon|python_native)|accelerator\.graphs)\.",
    "formats and compilers of PyTorch's own": (
        r"torch\.(onnx|fx|export|package|nativert|contrib|jit|compiler\.config|utils\.(hipify|jit|bundled_inputs|"
        r"model_dump|show_pickle|backcompat|benchmark|collect_env|viz|mobile_optimizer))\b(?!$)"
    ),
    "quantized numbers": r"torch\.(ao|quantization|nn\.(qat|quantized|quantizable|intrinsic))\b(?!$)",
    "several processes": r"torch\.distributed\.",
}
# Why names are not here, by module and name; the first that matches counts.
REASONS = {
    "there are no quantized tensors": (
        r"torch\.(q_|q(u?int|scheme)|quanti|int_repr|dequantize|empty_quantized|fbgemm|fake_quant|choose_qparams|"
        r"fused_moving_avg)"
    ),
    "kernels of other libraries, under their names": (
        r"torch\.(cudnn|miopen|mkldnn|batch_norm_)|torch\.utils\.mkldnn|torch\.nn\.attention\.(WARN_FOR|\w*flash_\w*impl)"
    ),
    "there are no numbers of 8 bits or less with a scale": (
        r"torch\.bit|torch\.nn\.functional\.(ScalingType|SwizzleType|scaled_)"
    ),
    "prototypes about files of PyTorch's own form, and about tracing a step of an optimizer": (
        r"torch\.(serialization\.skip_data|optim\.swap_in_)"
    ),
    "PyTorch's own tests and build": (
        r"torch\.(testing\.FileCheck|utils\.(cmake_prefix|Throughput|set_module|cpp_extension)|nn\.cpp)"
    ),
    "inner parts of PyTorch's modules, which its documentation does not name": (
        r"torch\.(slice_inverse|multiprocessing\.(pool|queue)|utils\.(hooks\.Backward|checkpoint\.SAC|debug_log)|"
        r"serialization\.(StorageType|mkdtemp|normalize|storage_to|validate)|overrides\.(enable_reent|redispatch)|"
        r"nn\.utils\.spectral_norm\.SpectralNorm\w+Hook|library\.get_kernel|nn\.attention\.varlen\.|"
        r"nn\.modules\.linear_cross_entropy_options|autograd\.gradcheck\.get_)"
    ),
    "PyTorch's script compiler": (
        r"torch\.(Block|Capsule|Graph|Node|Type|Use|Value|Benchmark|Throughput|DeviceObj|DisableTorch|Dispatch|Exclude|"
        r"FatalError|ModuleDict|ParameterDict|Script|Tag|AggregationType|AVG|SUM|import_ir|parse_|merge_type|unify_type|"
        r"init_num|cpp)"
    ),
    "symbols of PyTorch's tracing": r"torch\.(sym_|cond|export|compiler)",
    "functional forms for PyTorch's compiler, which its sparse tensors refuse": (
        r"torch\.(\w*indices_copy|values_copy)"
    ),
    "sparse tensors are by coordinates or by rows": r"torch\.(sparse_|resize_as_sparse|sparse\.)",
    "there is no other device": (
        r"torch\.(accelerator|backends|cpu|is_vulkan|.*autocast.*|from_file|numa|nn\.parallel\.comm|.*privateuse1_backend)"
    ),
    "steps of data pipes, which PyTorch no longer adds to": r"torch\.utils\.data\.",
    "what another process needs: tensors are sent as copies": r"torch\.multiprocessing\.reductions",
    "PyTorch's profiler": r"torch\.(autograd\.profiler|profiler|monitor|utils\.throughput)",
    "text of PyTorch's documentation, and names of its own imports": (
        r".*\.(TYPE_CHECKING|.*_notes|factory_kwargs|common_notes|Tensor|T)$"
    ),
}
PAGE = """# PyTorch's names, module by module

After this page you will know whether a name of PyTorch's is here.

Written by `python tools/conformance tree`; not to be edited. Every public module of PyTorch {version} is walked, and
each public name in it is looked up in Weft under the same path. A module's public names are those of its `__all__`, or
else what it defines. Not walked: modules with an underscore, and {left_out}.

{share} of {total} names in {modules} modules are here.

"""
NEXT = """
## Where to go next

[Compatibility](compatibility.md) says how the names that are here pass PyTorch's own tables of examples.
"""


def _walked_past(name: str) -> bool:
    return any(re.match(pattern, f"{name}.") for pattern in LEFT_OUT.values())


def modules() -> Iterator[types.ModuleType]:
    """PyTorch's public modules, each before those below it; what cannot be imported here is passed by."""
    waiting = ["torch"]
    while waiting:
        name = waiting.pop(0)
        try:
            module = importlib.import_module(name)
        except (ImportError, RuntimeError, OSError):
            continue
        yield module
        below = pkgutil.iter_modules(vars(module).get("__path__", []), f"{name}.")
        names = [found.name for found in below if not found.name.rpartition(".")[2].startswith("_")]
        waiting += [found for found in names if not _walked_past(found)]


def public_names(module: types.ModuleType) -> list[str]:
    """The names of `__all__`; else what a module defines, and what a package shows of its own modules."""
    if hasattr(module, "__all__"):
        return sorted(set(module.__all__))
    return sorted(name for name, value in vars(module).items() if _is_own(module, name, value))


def _is_own(module: types.ModuleType, name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, types.ModuleType):
        return False
    home = getattr(value, "__module__", None)
    if home is None:
        return isinstance(value, int | float | str | dict | list | tuple | set | frozenset)
    return home == module.__name__ or (
        hasattr(module, "__path__") and str(home).startswith("torch")
    )


def missing() -> tuple[dict[str, list[str]], int]:
    """Module -> the names that are not here, for every module; and how many names there are."""
    found, total = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules():
            names = public_names(module)
            total += len(names)
            ours = _counterpart(module.__name__)
            found[module.__name__] = [name for name in names if ours is None or not has(ours, name)]
    return found, total


def _counterpart(name: str) -> Any:
    """What `import` finds under a module's path here; else what attributes lead to, or None. A package may show a
    function under the name of the module that holds it."""
    path = name.partition(".")[2]
    try:
        return importlib.import_module(f"weft.{path}".rstrip("."))
    except ImportError:
        return reduce(lambda root, part: getattr(root, part, None), path.split("."), weft)


def reason(module: str, name: str) -> str:
    """Why a name is not here."""
    for text, pattern in REASONS.items():
        if re.match(pattern, f"{module}.{name}"):
            return text
    return "not built yet"


def page() -> str:
    """The text of docs/names.md."""
    import torch

    lacking, total = missing()
    by_reason: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, names in lacking.items():
        for name in names:
            by_reason[reason(module, name)][module].append(name)
    count = sum(map(len, lacking.values()))
    left_out = "; ".join(f"{text} (`{pattern}`)" for text, pattern in LEFT_OUT.items())
    parts = [
        PAGE.format(
            version=str(torch.__version__).partition("+")[0],
            left_out=left_out,
            share=total - count,
            total=total,
            modules=len(lacking),
        )
    ]
    for text, places in sorted(
        by_reason.items(), key=lambda item: -sum(map(len, item[1].values()))
    ):
        parts.append(f"## {text[0].upper()}{text[1:]} ({sum(map(len, places.values()))})\n\n")
        parts += [f"- `{module}`: {', '.join(names)}\n" for module, names in places.items()]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n" + NEXT


def write() -> None:
    """Write the page."""
    path = Path(__file__).resolve().parents[2] / "docs" / "names.md"
    path.write_text(page())
    print(path.read_text().split("\n\n")[2], file=sys.stdout)
