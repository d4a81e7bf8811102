"""Runs side by side: replicates of one setting against those of another, as a table."""
