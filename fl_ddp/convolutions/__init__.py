"""Convolutions of lanes, each of which has weights of its own: their forms, and the compiler pass that chooses.

Beside them the max pooling between convolutions, where a CPU tests a model.
"""
