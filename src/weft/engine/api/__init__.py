"""The API boundary: the wrapper of every public function, and the errors of wrong calls.

`api_function` wraps; `argument_names` knows other spellings of a call; `argument_types` and `argument_errors` find
afterwards which argument of a failed call was wrong; `operand_types` has the element types that compositions take;
`call_cache` replays known calls; `public_names` and `grad_fn_names` have the names under which users know functions
and gradient records. Start with `api_function`.
"""
