"""Weft against PyTorch, side by side in one run: `python -m benchmarks`.

Each workload is written once, for a `lib` that is either library, and both get the same numbers.
It is measured only after both have given the same results; then they take turns, and the medians of
the turns and their ratio are printed. Nothing here is asserted: timings are read by people.
"""
