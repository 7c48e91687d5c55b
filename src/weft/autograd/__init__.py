"""Automatic differentiation: reverse walks, hooks, custom functions, gradient checks."""

from weft.autograd import forward_ad, function, functional, graph
from weft.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from weft.autograd.backward import backward, grad
from weft.autograd.function import Function, FunctionCtx, once_differentiable
from weft.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from weft.autograd.handle import METHODS
from weft.autograd.multithreading import is_multithreading_enabled, set_multithreading_enabled

__all__ = [
    "METHODS",
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_multithreading_enabled",
    "once_differentiable",
    "set_detect_anomaly",
    "set_multithreading_enabled",
]
