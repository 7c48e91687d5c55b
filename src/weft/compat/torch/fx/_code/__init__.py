"""Python code of a graph: names, a line for each node, the function around them (`code_generation`), whole folders.

In: nodes of `graph`. Out: text, and what its names stand for. `graph_module` compiles it. Start with `code_generation`.
"""
