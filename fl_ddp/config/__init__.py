"""What a user may ask for: options, files and names, turned into the settings of one run."""
