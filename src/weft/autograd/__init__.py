"""Automatic differentiation: reverse walks, hooks, custom functions, gradient checks.

Recording needs none of it: each name is imported when it is first asked for.
"""

from weft._lazy import export_later

_EXPORTS = {
    "Function": "function",
    "FunctionCtx": "function",
    "GradcheckError": "gradcheck",
    "Variable": "variable",
    "backward": "backward",
    "detect_anomaly": "anomaly",
    "find_anomaly": "anomaly",
    "grad": "backward",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "is_anomaly_check_nan_enabled": "anomaly",
    "is_anomaly_enabled": "anomaly",
    "is_multithreading_enabled": "multithreading",
    "once_differentiable": "function",
    "set_detect_anomaly": "anomaly",
    "set_multithreading_enabled": "multithreading",
}
__all__ = sorted({*_EXPORTS, "forward_ad", "function", "functional", "graph", "profiler"})
__getattr__, __dir__ = export_later(__name__, _EXPORTS)
