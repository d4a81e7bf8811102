"""Local training: clients as lanes of one vectorised, compiled step. Knows no method, no rank and no file."""
