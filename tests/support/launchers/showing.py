"""launch.results as tests call it."""

from __future__ import annotations

from collections.abc import Callable

Showing = Callable[..., tuple[int, str, str]]
"""The command's words to its exit code, stdout and stderr."""
