"""How the data change over the rounds of a run, one file each."""
