"""The demo: a dynamic network trained on the syntax trees of Python's standard library."""
