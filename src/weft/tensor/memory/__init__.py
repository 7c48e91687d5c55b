"""The host's memory under tensors: values in the pool, arrays that others can write, memory that processes share.

In come NumPy arrays, files and storages; out go done nodes and views of memory. Start with `host_memory`.
"""
