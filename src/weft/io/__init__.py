"""Files: safetensors (`saving`), PyTorch's own format (`torch_format`), pickles without code (`safe_unpickler`).

`files` writes a file whole or not at all, and says what is wrong with a path. Start with `saving`.
"""
