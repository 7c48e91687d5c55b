"""PyTorch's experiments with graphs, as far as programs import them: modules made for inference, symbolic sizes."""
