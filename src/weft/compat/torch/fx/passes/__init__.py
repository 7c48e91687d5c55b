"""Passes over graphs, under the names of PyTorch's files.

A pass finds facts of a graph module's nodes, or makes another graph. Start with `shape_prop`.
"""
