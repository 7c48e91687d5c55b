"""What gradient checks are made of: central differences, options, and checks beyond first derivatives.

In come a function and its inputs; out goes a GradcheckError where derivatives disagree. The check that users call is
`weft.autograd.gradcheck`: start there.
"""
