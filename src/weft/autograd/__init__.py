"""Automatic differentiation: reverse walks, hooks, custom functions, gradient checks."""

from weft.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from weft.autograd.backward import backward, grad
from weft.autograd.function import Function, FunctionCtx, once_differentiable
from weft.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from weft.autograd.handle import METHODS

__all__ = [
    "METHODS",
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_anomaly_enabled",
    "once_differentiable",
    "set_detect_anomaly",
]
