"""The statements of a text in Python by the names that they give."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

_BLOCKS = ("body", "orelse", "finalbody")
"""Where Python's syntax tree has the statements inside of one."""


@lru_cache(maxsize=4096)
def statements_in(text: str) -> Mapping[str, str]:
    """The statements of a script or cell by the names that they give, wherever in its blocks; nothing if it is none."""
    try:
        waiting = [*reversed(ast.parse(text).body)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found, made, calls = dict[str, str](), set[str](), list[tuple[str, str]]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [each.asname or each.name.partition(".")[0] for each in node.names]
        else:
            waiting += reversed(_inside(node))
            names = _given_by(node)
            made.update(names)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
                calls += [(each, _said(node, text)) for each in _bases(node.value)]
        said = _said(node, text) if names else ""
        for name in dict.fromkeys(names):
            found[name] = f"{found.get(name, '')}{said}\n"
    for name, said in calls:  # of what the script has made; a library's are for all that goes on
        if name in made:
            found[name] += f"{said}\n"
    return found


def _inside(node: ast.stmt) -> list[ast.stmt]:
    """The statements in the blocks of one."""
    parts = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return [each for part in parts for block in _BLOCKS for each in getattr(part, block, [])]


def _given_by(node: ast.stmt) -> list[str]:
    """Names that a statement itself gives, or gives something to; not those in its blocks."""
    heads = [getattr(node, part, []) for part in ("target", "targets")]
    heads += [each.optional_vars for each in getattr(node, "items", []) if each.optional_vars]
    names = [name for head in heads for each in (head if isinstance(head, list) else [head]) for name in _bases(each)]
    parts = [getattr(node, part, None) for part in ("value", "test", "iter", "subject")]
    inner = (each for part in parts if part for each in ast.walk(part) if isinstance(each, ast.NamedExpr))
    return [*names, *(each.target.id for each in inner)]


def _bases(node: ast.expr) -> list[str]:
    """What a target or a call begins with: x of x.y[z], and both of x, y."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for each in node.elts for name in _bases(each)]
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Await):
        return _bases(node.value)
    if isinstance(node, ast.Call):
        return _bases(node.func) if isinstance(node.func, ast.Attribute) else []
    return [node.id] if isinstance(node, ast.Name) else []


def _said(node: ast.stmt, text: str) -> str:
    """A statement without its blocks, in Python's own words; as it stands where it has none for it."""
    alone: ast.stmt = node
    if isinstance(node, ast.For):
        alone = ast.For(node.target, node.iter, [ast.Pass()], [], lineno=0)
    elif isinstance(node, ast.With):
        alone = ast.With(node.items, [ast.Pass()], lineno=0)
    elif isinstance(node, ast.If | ast.While):
        alone = ast.Expr(node.test)
    elif isinstance(node, ast.Match):
        alone = ast.Expr(node.subject)
    try:
        return ast.unparse(alone)
    except (ValueError, RecursionError):  # of numbers of thousands of digits, and sums of hundreds
        return ast.get_source_segment(text, node) or ""
