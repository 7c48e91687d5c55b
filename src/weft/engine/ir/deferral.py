# cython: language_level=3
"""Deferral of nodes under a memory budget: the states that `RareFacts.deferred` says, and how often too much was kept.

`engine.pipeline.budget` decides; the fingerprint of a flush asks.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

shortage = 0
