"""The host's memory under tensors: values in the pool, arrays that others can write, memory that processes share.

NumPy arrays, files and storages become computed nodes and views of memory. Start with `host_memory`.
"""
