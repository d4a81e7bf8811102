"""How models do on test samples."""
