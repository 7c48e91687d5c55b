"""Tools around training: recomputation instead of saving."""
