"""Fourier transforms (`fft`), short-time transforms and their windows (`stft`).

In come signals along one dimension or several; out go their transforms, whose values SciPy computes at the call and
whose derivatives are recorded. Start with `fft`.
"""
