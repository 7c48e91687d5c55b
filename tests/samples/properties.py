"""How Hypothesis runs the tests of random programs: the same programs each time, however long one takes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

QUICK = settings(
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
