"""Tasks one after the other: who takes part in them and has which samples."""
