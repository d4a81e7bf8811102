"""What follows a run while it goes on."""
