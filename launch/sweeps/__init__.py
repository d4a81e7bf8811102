"""The points of a sweep, their folder and their runs."""
