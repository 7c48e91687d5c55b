"""What public functions are built with: variants that write to `out=` or in place, and checks of operands.

In come functions, results and operands; out go variants, checked operands, and values as NumPy arrays. Everything in
this folder is below the functions themselves. Start with `variants`; a function that reads values at the call starts
with `host`.
"""
