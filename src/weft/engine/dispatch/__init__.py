"""Dispatch: decides who answers a call before it is recorded, that is modes and types with `__torch_function__`. It
also has the functions of upper layers that the recorder calls (`core_hooks`). Start with `torch_function`.
"""
