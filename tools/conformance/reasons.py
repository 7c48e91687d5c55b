"""Why entries that fail do so, for the page: what is decided, and what nobody has built. An entry that fails and has
no line here is a defect."""

REASONS = {
    "chalf": "complex numbers of two halves do not exist here",
    "hash_tensor": "its result is of 64 bits without a sign, a type that operations here do not have",
    "histogramdd": "edges out of order are refused here; PyTorch counts by a search that expects them in order",
    "matrix_exp": "PyTorch's float16 overflows on the way; here half types are computed in float32",
    "addbmm": "PyTorch's in-place form gives a tensor of one element another shape; here that is refused",
    "cov": "weights of float32 cancel in a sum; both round it, in another order",
    "narrow_copy": "of a dimension that is not there, PyTorch shows a line of its own source",
    "nn.functional.max_unpool2d": "of elements for one place any may stay, PyTorch says; their tangents differ",
}
