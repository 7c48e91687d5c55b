"""The build of the package: compiled modules and their hashes, imports on first use.

`compiled` knows which modules are compiled and whether a build is stale, `lazy` imports on first use. `worker`, which
fibers of `weft.map` run, is here because it must not be compiled. Start with `compiled`.
"""
