"""The compatibility room: modules that exist because other packages have them or look for them, and no part of the
engine.

`torch/` has modules of PyTorch's tree. It is on the path of the package: `weft.fx` is found there, and has no other
name. It is as flat as PyTorch's own tree, in `fx` too: the path of a module is the name that programs import.
`root_functions` are functions of PyTorch's root, `absent` names replacements for what is missing, `einops_backend`
introduces tensors to libraries that keep tables of frameworks. Start with `root_functions`.
"""
