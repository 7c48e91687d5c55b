"""The border between a user's call and the library: what every public function is wrapped in, and what is said when a
call is wrong.

`api_function` wraps; `argument_names` knows other spellings of a call; `argument_types` and `argument_errors` say
afterwards which argument of a failed call was wrong; `call_cache` replays calls that are known; `public_names`
and `grad_fn_names` know what things are called outside. Start with `api_function`.
"""
