"""How the package is put together: compiled modules and their hashes, imports on first use."""
