"""What anomaly mode says: where a value that is not finite came from, and what custom Functions were given.

In come the outputs of a backward; out goes an error that names the operation at fault, with its operands in numbers.
The mode itself is `weft.autograd.anomaly_mode`. Start with `watch`, which looks at what a walk has come to.
"""
