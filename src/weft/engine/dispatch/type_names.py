"""Names in PyTorch's errors: of element types, `Long` of tensors, `long int` where it speaks of C; of kernels."""

TYPE_NAMES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
C_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
}
# Of types that a number does not fit, as C++ programs spell them.
OVERFLOW_NAMES = {
    **C_NAMES,
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

_ON_CPU = (
    "atan2 bitwise_and bitwise_not bitwise_or bitwise_xor clamp copysign elu fmod gcd ge gt hardshrink hardsigmoid "
    "hardswish hypot le leaky_relu logaddexp2 lt mish nextafter remainder silu softplus xlog1py xlogy xor_sum"
)
_SPECIAL_ON_CPU = (
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr i0e i1 i1e modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 zeta"
)
_VECTORIZED_ON_CPU = "ceil erf erfc erfinv floor lgamma round trunc"
# PyTorch's kernels on the CPU, by the names of operations and functions here; others have the name of the operation.
_KERNELS = {
    **{name: f"{name}_cpu" for name in _ON_CPU.split()},
    **{f"special_{name}": f"{name}_cpu" for name in _SPECIAL_ON_CPU.split()},
    **{name: f"{name}_vml_cpu" for name in _VECTORIZED_ON_CPU.split()},
    "abs": "abs_cpu",
    "amax": "max_values_cpu",
    "amin": "min_values_cpu",
    "bitwise_left_shift": "lshift_cpu",
    "bitwise_right_shift": "rshift_cpu",
    "celu": "elu_cpu",
    "cross_entropy": "log_softmax_lastdim_kernel_impl",
    "floor_divide": "div_floor_cpu",
    "gelu": "GeluKernelImpl",
    "log_normal_": "log_normal_cpu",
    "logsigmoid": "log_sigmoid_cpu",
    "max": "max_all",
    "frac": "frac_cpu",
    "logcumsumexp": "logcumsumexp_out_cpu",
    "median": "median_cpu",
    "min": "min_all",
    "polygamma": "trigamma",
    "scatter_maximum": "scatter_gather_tensor_cpu_reduce_amax",
    "scatter_minimum": "scatter_gather_tensor_cpu_reduce_amin",
    "scatter_product": "scatter_gather_tensor_cpu_reduce_multiply",
    "selu": "elu_cpu",
    "softshrink": "softshrink_check",
    "special_i0": "i0_vml_cpu",
    "special_ndtr": "erf_vml_cpu",
    "trunc_divide": "div_trunc_cpu",
}


def no_kernel_for(function: str, dtype: str) -> str:
    """PyTorch's text for a function whose kernel does not take a type."""
    return f"\"{_KERNELS.get(function, function)}\" not implemented for '{TYPE_NAMES[dtype]}'"
