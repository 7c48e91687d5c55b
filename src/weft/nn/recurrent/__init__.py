"""Recurrent networks: layers over whole sequences (`layers`) and cells for one step (`cells`).

They take padded or packed sequences and a state, and return outputs and the final state. A step is compiled
(`cell_steps`). Start with `layers`.
"""
