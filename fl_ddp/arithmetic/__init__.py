"""How a device computes: the same bits every time, wherever a number lies."""
