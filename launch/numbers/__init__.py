"""Numbers read off the curves of runs, their spread over seeds, and the tables that they are shown in."""
