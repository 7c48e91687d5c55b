"""From the recorded graph to launches: collect, batch, fuse, plan, lower; each a pure stage with a verifier."""
