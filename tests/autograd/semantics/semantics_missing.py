"""What Weft does not fulfil yet: the test, and what is missing."""

NAMES = "test_025_names_of_nodes"

MISSING: dict[str, str] = {
    f"{NAMES}[weft-ClampBackward1]": "clamp is recorded as clamp_min and clamp_max",
    f"{NAMES}[weft-IndexBackward0]": "one index tensor is recorded as index_select",
    f"{NAMES}[weft-MaxBackward1]": "the maximum of all elements has the name of amax",
    f"{NAMES}[weft-MeanBackward0]": "mean is recorded as a sum and a division",
    f"{NAMES}[weft-MeanBackward1]": "mean is recorded as a sum and a division",
    f"{NAMES}[weft-PowBackward0]": "small powers are recorded as products",
    f"{NAMES}[weft-RsubBackward1]": "number - tensor is recorded as sub",
    f"{NAMES}[weft-SumBackward1]": "sum has one name, with dimensions and without",
    "test_025_several_outputs_of_one_node[weft]": "each piece of a split is a node of its own",
    "test_100_pickle[weft]": "files hold every tensor by itself, and only state dicts",
    "test_101_numpy[weft]": "conj is computed, not a flag on the memory of its operand",
    "test_112_conj_is_lazy_and_unordered[weft]": "conj is computed, not a flag",
}
