from cpython.buffer cimport Py_buffer
from weft.engine.ir.node cimport Node

cdef char* dense_elements(Node node, long long offset, long long count, Py_buffer* view) noexcept
