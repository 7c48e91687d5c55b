"""The recorded graph: dtypes, nodes, the tape, tensor handles and the recorder."""
