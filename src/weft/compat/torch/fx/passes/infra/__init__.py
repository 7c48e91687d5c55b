"""The infrastructure of passes: one with checks before and after it, and a manager that runs several in order."""
