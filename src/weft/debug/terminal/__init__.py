"""Views for the terminal: `plot` of a tensor, `doctor` of the installation. Start with `plot`."""
