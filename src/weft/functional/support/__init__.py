"""Building blocks of public functions: variants that write to `out=` or in place, and checks of operands.

Everything in this folder is below the functions themselves. Start with `variants`; a function that reads values at the
call starts with `host`.
"""
