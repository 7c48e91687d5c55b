"""The demo: a dynamic network trained on the syntax trees of Python's standard library.

A Tree-LSTM learns from Python files; the demo shows its loss and which operations ran in which batch. Start with
`train`; `syntax_trees` reads the files, `cli` is the command.
"""
