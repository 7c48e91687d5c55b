"""What passes share: where a graph does what another one does."""
