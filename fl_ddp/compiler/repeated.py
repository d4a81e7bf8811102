"""Calls of a compiled function in a row, made by the C++ that torch's compiler writes for it: no Python between them.

Python's lock is free from the first call to the last. Threads that took turns with it several times a step, for as long
as it takes to wake one another, would wait longer than they compute where a step is short.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

_UNLOCKED = "py::gil_scoped_release_simple release;"
"""With what a call begins."""
_CALL = "inductor_entry_impl(input_handles.data(), output_handles.data());"
"""How the C++ calls what it compiled, with handles of its inputs that the call takes for itself."""
_CALLS = f"""
                PyObject* own = PyImport_ImportModule("{__name__}");
                PyObject* asked = own ? PyObject_CallMethod(own, "times", nullptr) : nullptr;
                long long left = asked ? PyLong_AsLongLong(asked) : 0;
                Py_XDECREF(asked);
                Py_XDECREF(own);
                if (PyErr_Occurred()) {{{{
                    return nullptr;
                }}}}
                {{{{
                    {_UNLOCKED}
                    std::vector<AtenTensorHandle> again(input_handles.size());
                    for (; left > 1; left--) {{{{
                        for (size_t i = 0; i < again.size(); i++) {{{{
                            if (aoti_torch_new_tensor_handle(input_handles[i], &again[i])) {{{{
                                throw std::runtime_error("an input has no second handle");
                            }}}}
                        }}}}
                        inductor_entry_impl(again.data(), output_handles.data());
                    }}}}
                    {_CALL}
                }}}}"""
_one_at_a_time = threading.RLock()
_asked = threading.local()


def times() -> int:
    """How often this thread's next call of a repeated function is made."""
    return getattr(_asked, "times", 1)


@contextmanager
def in_a_row(times: int) -> Iterator[None]:
    """Functions that were compiled in a block of repeatedly() are called so often for each call."""
    _asked.times = times
    try:
        yield
    finally:
        _asked.times = 1


@contextmanager
def repeatedly() -> Iterator[None]:
    """What is compiled in a block by Inductor's C++ wrapper, and gives nothing, can be called in_a_row().

    Raises:
        NotImplementedError: this version of torch calls what it compiled in another way.
    """
    from torch._inductor.codecache import CppWrapperCodeCache as Wrapper  # takes a second that eager runs can spare

    load, call = Wrapper.load_pybinding_async, Wrapper.extra_parse_arg

    def repeated(argtypes: Any, main_code: str, *args: Any, **kwargs: Any) -> Any:
        if main_code.count(_UNLOCKED) != 1 or call.count(_CALL) != 1:
            raise NotImplementedError("torch's C++ wrapper is not one that is known")
        return load(argtypes, main_code.replace(_UNLOCKED, ""), *args, **kwargs)

    with (
        _one_at_a_time,
        mock.patch.object(Wrapper, "load_pybinding_async", repeated),
        mock.patch.object(Wrapper, "extra_parse_arg", call.replace(_CALL, _CALLS)),
        _without(logging.getLogger("torch._inductor.ir"), "missing a c-shim"),
    ):
        yield


@contextmanager
def _without(log: logging.Logger, words: str) -> Iterator[None]:
    """A log without messages of these words: that an operator is called by torch's dispatcher is no news to a user."""

    def other(record: logging.LogRecord) -> bool:
        return words not in record.getMessage()

    log.addFilter(other)
    try:
        yield
    finally:
        log.removeFilter(other)
