"""The tree of modules: what a Module is, how it is called, how its state is saved, loaded and moved.

In come attributes that a subclass assigns and calls by the user; out go members by name and kind, results of `forward`
as hooks left them, and the state as a flat dictionary. Start with `module`.
"""
