"""Tasks one after the other: who has which samples in them, and what a model knows of each after each."""
