"""Ways of dividing a training set among clients, one file each."""
