"""Losses: of classes, of numbers, by margins, and over sequences.

A loss of predictions and targets is one number, or with reduction="none" one for each element or example. Start with
`regression`.
"""
