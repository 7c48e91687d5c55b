"""Tracing: calls are intercepted, arguments become placeholders, scopes name the modules that run.

In: the program's calls. Out: proxies and scopes; `_symbolic_trace` makes the nodes. Start with `interception`.
"""
