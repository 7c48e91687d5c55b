"""The common part of passes: the occurrences of one graph in another."""
