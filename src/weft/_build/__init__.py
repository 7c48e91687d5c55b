"""How the package is put together: compiled modules and their hashes, imports on first use.

`compiled` says which modules are compiled and whether a build is stale, `lazy` imports on first use. `worker`,
which fibers of `weft.map` run, stands here because it must not be compiled. Start with `compiled`.
"""
