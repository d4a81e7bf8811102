"""Numbers read off the curves of runs, and their spread over seeds."""
