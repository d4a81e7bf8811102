"""Runs made on this machine, each a process of its own."""
