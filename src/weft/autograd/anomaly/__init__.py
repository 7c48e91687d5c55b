"""What anomaly mode says: where a value that is not finite came from, and what custom Functions were given.

In come a gradient or an output that is not finite, and what was pending when it was recorded; out go the operation at
fault and its operands in numbers. The mode itself is `weft.autograd.anomaly_mode`. Start with `nonfinite_origin`.
"""
