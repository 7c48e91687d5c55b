"""Who answers a call before it is recorded: modes, types with `__torch_function__`, and the functions of upper layers
that the recorder calls (`core_hooks`). Start with `torch_function`.
"""
