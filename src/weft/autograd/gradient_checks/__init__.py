"""Parts of gradient checks: central differences, options, and checks beyond first derivatives.

They take a function and its inputs, and raise a GradcheckError if derivatives disagree. The check that users call is
`weft.autograd.gradcheck`: start there.
"""
