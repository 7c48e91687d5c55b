"""Device-neutral kernels: loop IR and row IR, each with a verifier and a printer, and the order of sums.

`loop_ir` is one nest of loops, `row_ir` several over the same rows; neither has sizes, lanes or addresses.
`reduction_order` defines sums on every device. Start with `loop_ir`.
"""
