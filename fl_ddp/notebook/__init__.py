"""Runs from a notebook or a script: what it gives in place of names and files, and what it gets."""
