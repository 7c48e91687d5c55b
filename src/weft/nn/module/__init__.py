"""The tree of modules: the Module class, its calls, hooks, state, and conversion.

Attributes that a subclass assigns become members by name and kind; calls give results of `forward` as hooks left them;
the state is a flat dictionary. Start with `module`.
"""
