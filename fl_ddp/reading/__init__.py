"""What a run reads: where a path of the user's leads, and what is said of a file that is damaged."""
