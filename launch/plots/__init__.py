"""Plots of runs side by side."""
