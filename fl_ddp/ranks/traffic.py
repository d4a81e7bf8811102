"""What a round sends."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from fl_ddp.protocol import Term, Upload


class Traffic(NamedTuple):
    """Bytes that all clients of a round together send, and that they receive or were given before it."""

    up: int
    down: int


def bytes_up(upload: Upload) -> int:
    """What one client sends; running statistics are coordinates of its change and no second time on the wire."""
    on_the_wire = {name: t for name, t in upload.on_the_wire.items() if name != "statistics"}
    values = [t.value if isinstance(t, Term) else t for t in on_the_wire.values()]
    return sum(prod(v.shape[1:]) * v.element_size() for v in values)
