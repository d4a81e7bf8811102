"""One run, seen from outside: what starts it, what it left, the numbers read off it."""
