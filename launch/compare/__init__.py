"""Runs side by side: grouped by what differs, as a table and as plots."""
