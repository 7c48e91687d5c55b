from weft.engine.frontend.tensor cimport Tensor

cpdef slice_view(Tensor input, Py_ssize_t axis, long long start, long long length, long long step=*, object row=*)
cpdef select_view(Tensor input, Py_ssize_t axis, long long index, object row=*)
