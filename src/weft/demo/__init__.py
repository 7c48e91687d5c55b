"""The demo: a dynamic network trained on the syntax trees of Python's standard library.

In come Python files; out go a Tree-LSTM that has learned from them, its loss and what ran in which batch. Start with
`train`; `syntax_trees` reads the files, `cli` is the command.
"""
