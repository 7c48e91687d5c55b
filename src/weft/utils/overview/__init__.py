"""Overviews of models: `summary` as a table of modules. Start with `summary`."""
