"""Neural networks, one file a family."""
