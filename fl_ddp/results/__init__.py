"""What a run leaves, and how it goes on from there: folder, checkpoints, records, plots."""
