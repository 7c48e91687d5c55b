"""Passes over graphs, under the names of PyTorch's files.

In comes a graph module; out goes what is known of its nodes, or another graph. Start with `shape_prop`.
"""
