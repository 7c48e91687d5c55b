"""What Weft does not fulfil yet: the test, and what is missing."""

MISSING: dict[str, str] = {}
