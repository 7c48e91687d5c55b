"""Anomaly reports: the origin of a value that is not finite, and the inputs of custom Functions.

The outputs of a backward become an error that names the operation at fault, with its operands in numbers. The mode
itself is `weft.autograd.anomaly_mode`. Start with `watch`, which looks at the results of a walk.
"""
