from weft.engine.frontend.tensor cimport Tensor

cpdef slice_view(Tensor input, Py_ssize_t axis, long long start, long long length, long long step=*, object op=*)
cpdef select_view(Tensor input, Py_ssize_t axis, long long index, object op=*)
