"""Losses: of classes, of numbers, by margins, and over sequences.

In come predictions and targets; out goes one number, or with reduction="none" one for each element or example. Start
with `regression`.
"""
