"""What Weft does not fulfil yet: the test, and what is missing."""

MISSING: dict[str, str] = {
    "test_025_several_outputs_of_one_node[weft]": "each piece of a split is a node of its own",
}
