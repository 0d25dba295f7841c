"""The verbs, as every surface has them: a table of what can be typed, and one module per verb that returns data.

Nothing here prints, colours or parses a command line.
"""
