"""What exists because other packages have it or look for it, and holds no part of the engine.

`torch/` holds modules of PyTorch's tree. It lies on the path of the package: `weft.fx` is found there, and has no
other name. It is as flat as PyTorch's own tree, in `fx` too: where a module lies is the name that programs import.
`root_functions` are functions of PyTorch's root, `absent` says what there is instead of what is missing,
`einops_backend` introduces tensors to libraries that keep tables of frameworks. Start with `root_functions`.
"""
