"""Which version of a user's own code a run is of."""
