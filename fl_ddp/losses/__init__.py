"""What clients train for and what their models are measured by; one file for each loss."""
