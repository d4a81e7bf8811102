"""How the parts of a run are made of its configuration, and which do not go together."""
