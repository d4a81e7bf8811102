"""Runs made by Slurm, through submitit."""
