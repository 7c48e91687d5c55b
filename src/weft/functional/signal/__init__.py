"""Fourier transforms (`fft`), short-time transforms and their windows (`stft`).

SciPy computes the values at the call; derivatives are recorded. Start with `fft`.
"""
