"""Why entries that fail do so, for the page: what is decided, and what nobody has built. An entry that fails and has
no line here is a defect."""

REASONS = {
    "chalf": "complex numbers of two halves do not exist here",
    "matrix_exp": "PyTorch's float16 overflows on the way; here half types are computed in float32",
    "narrow_copy": "of a dimension that is not there, PyTorch shows a line of its own source",
    "nn.functional.max_unpool2d": "of elements for one place any may stay, PyTorch says; their tangents differ",
}
