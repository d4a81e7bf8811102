"""What models know of each task after each, and what that says of forgetting."""
