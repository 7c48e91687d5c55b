"""Automatic differentiation: reverse walks, hooks, custom functions, gradient checks.

Recording needs none of it: each name is imported when it is first asked for.
"""

from weft._build.lazy import export_later as _export_later

_EXPORTS = {
    "Function": "function",
    "FunctionCtx": "function",
    "GradcheckError": "gradcheck",
    "NestedIOFunction": "function",
    "SavedTensor": "grad_fn_attributes",
    "Variable": "variable",
    "backward": "backward",
    "detect_anomaly": "anomaly",
    "enable_grad": "grad_mode",
    "enforce_grad_layout_policy": "grad_mode",
    "find_anomaly": "anomaly",
    "grad": "backward",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "inference_mode": "grad_mode",
    "is_anomaly_check_nan_enabled": "anomaly",
    "is_anomaly_enabled": "anomaly",
    "is_multithreading_enabled": "multithreading",
    "no_grad": "grad_mode",
    "once_differentiable": "function",
    "set_detect_anomaly": "anomaly",
    "set_grad_enabled": "grad_mode",
    "set_multithreading_enabled": "multithreading",
}
__all__ = sorted(
    {
        *_EXPORTS,
        *("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler"),
    }
)
__getattr__, __dir__ = _export_later(__name__, _EXPORTS)
