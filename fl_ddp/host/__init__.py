"""The process and the machine: signals, settings, output and whole files."""
