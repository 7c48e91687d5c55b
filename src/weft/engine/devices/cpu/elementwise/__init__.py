"""Elementwise operations as LLVM IR over vectors of lanes. `emitter` has a method for each primitive; start there."""
