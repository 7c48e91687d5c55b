"""What programs import of PyTorch's experiments with graphs: modules made for use, sizes that stand for many."""
