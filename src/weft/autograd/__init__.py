"""Automatic differentiation: reverse walks, hooks, custom functions, gradient checks.

Recording needs none of it: each name is imported when it is first asked for. Modules that PyTorch has stand here, what
they are made of in `grad_fn`, `custom`, `anomaly` and `gradient_checks`. Start with `backward`.
"""

from weft._build.lazy import export_later as _export_later

_EXPORTS = {
    "Function": "function",
    "FunctionCtx": "function",
    "GradcheckError": "gradcheck",
    "NestedIOFunction": "function",
    "SavedTensor": "grad_fn.attributes",
    "Variable": "variable",
    "backward": "backward",
    "detect_anomaly": "anomaly_mode",
    "enable_grad": "grad_mode",
    "enforce_grad_layout_policy": "grad_mode",
    "find_anomaly": "anomaly_mode",
    "grad": "backward",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "inference_mode": "grad_mode",
    "kineto_available": "profiler",
    "is_anomaly_check_nan_enabled": "anomaly_mode",
    "is_anomaly_enabled": "anomaly_mode",
    "is_multithreading_enabled": "multithreading",
    "no_grad": "grad_mode",
    "once_differentiable": "function",
    "set_detect_anomaly": "anomaly_mode",
    "set_grad_enabled": "grad_mode",
    "set_multithreading_enabled": "multithreading",
}
__all__ = sorted(
    {
        *_EXPORTS,
        *("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler"),
    }
)
__getattr__, __dir__ = _export_later(__name__, _EXPORTS | {"_is_checkpoint_valid": "variable"})
