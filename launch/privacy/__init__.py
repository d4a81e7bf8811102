"""What can be told of clients' samples from what they send."""
