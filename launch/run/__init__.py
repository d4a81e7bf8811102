"""One run, seen from outside: what starts it, what it left, and how it failed."""
