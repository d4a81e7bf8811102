"""Rules by which a local step moves a client's parameters; one file each."""
