"""How much a client's data say about each parameter: Fisher information and its relatives."""
