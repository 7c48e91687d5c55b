"""Breakpoints on values: `watch` stops in the debugger where a condition holds, in the frame of the user's line.

`frames` finds that frame, or stands in for it where it is gone. Start with `watch`.
"""
