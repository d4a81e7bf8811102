"""What all compiler passes have in common: graphs are compiled anew when the file of one of them has changed."""

from __future__ import annotations

import inspect

from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files


class GraphPass(CustomGraphPass):
    """A pass, as Inductor's post-grad hooks take it."""

    def uuid(self) -> object:
        """What compiled graphs are cached by, beside the graph itself."""
        return get_hash_for_files((inspect.getfile(type(self)),))
