"""Recurrent networks: layers over whole sequences (`layers`) and cells for one step (`cells`).

In come sequences, padded or packed, and a state; out go outputs and the final state. What a step computes is compiled
(`cell_steps`). Start with `layers`.
"""
