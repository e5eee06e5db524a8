"""Whether a number is still what the code would give: a fingerprint of the modules that made it, kept with the result.

It covers the method's module and every module of this package that it imports, directly or not. They are read and
parsed, and never imported. Comments, docstrings and layout leave the fingerprint as it is.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import propml
from propml.benchmark.results import CellResult

# The folder that the package lies in.
ROOT = Path(propml.__file__).parents[1]
PACKAGE = "propml"
# What a cell on images runs through; its method is a recipe of these.
IMAGE_MODULES = ("propml.vision.training", "propml.vision.predict")


def age(cell: CellResult) -> str:
    """Of a stored result: ``"current"``, ``"changed"`` where its code has changed since, ``"unknown"`` for old ones."""
    if not cell.fingerprint:
        return "unknown"
    return "current" if fingerprint(made_by(cell.settings)) == cell.fingerprint else "changed"


def made_by(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules that compute a cell with these settings; none where its method is not there any more."""
    from propml.benchmark.rivals import RIVALS
    from propml.methods import METHODS

    if settings.get("kind") == "images":
        return IMAGE_MODULES
    method = settings.get("method")
    if method in RIVALS:
        return ("propml.benchmark.rivals",)
    if method not in METHODS:
        return ()
    oracle = method == "propml" and settings.get("selection") == "oracle"
    return (METHODS[method].module, *(["propml.paper.oracle"] if oracle else []))


def fingerprint(modules: Iterable[str], root: Path = ROOT) -> str:
    """Sixteen digits that stand for the code of these modules and of all that they import from the package.

    >>> fingerprint(["propml.methods.ridge"]) == fingerprint(["propml.methods.ml_knn"])
    False
    """
    digest = hashlib.sha256()
    for name in sorted(with_imports(modules, root)):
        if path := _file(name, root):
            digest.update(f"{name}\n{_code(*_written(path))}\n".encode())
    return digest.hexdigest()[:16]


def with_imports(modules: Iterable[str], root: Path = ROOT) -> set[str]:
    """The modules, and those of the package that they import, directly or not.

    >>> "propml.methods.base" in with_imports(["propml.methods.ridge"])
    True
    """
    found: set[str] = set()
    waiting = [name for name in modules if _file(name, root)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [other for other in _imported(name, root) if _file(other, root)]
    return found


def _file(module: str, root: Path) -> Path | None:
    place = root.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


@cache
def _tree(path: Path, written: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _code(path: Path, written: int) -> str:
    """The code without docstrings, in one layout."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        has_body = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if has_body and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    # As text: versions of Python dump the same tree in different ways.
    return ast.unparse(tree)


def _written(path: Path) -> tuple[Path, int]:
    """A file and when it was written: what tells whether it was parsed already."""
    return path, path.stat().st_mtime_ns


def _imported(module: str, root: Path) -> Iterator[str]:
    """What a module imports when it runs; what only type checkers import is left out."""
    path = _file(module, root)
    assert path is not None
    waiting: list[ast.AST] = [_tree(*_written(path))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, path)
            if base.partition(".")[0] == PACKAGE:
                # A new version alone is no other code.
                yield from (_origin(base, alias.name, root) for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            # import_module(f"propml.losses.{name}"): any module of that package.
            folder = str(node.values[0].value)
            if folder.startswith(f"{PACKAGE}.") and folder.endswith("."):
                names = sorted(path.stem for path in root.joinpath(*folder.split(".")).glob("*.py"))
                yield from (f"{folder}{name}" for name in names if name != "__init__")
        waiting += ast.iter_child_nodes(node)


def _base(node: ast.ImportFrom, module: str, path: Path) -> str:
    """The full name of what is imported from, also where it is given by dots."""
    if not node.level:
        return node.module or ""
    up = node.level - (path.name == "__init__.py")
    parts = module.split(".")
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def _origin(base: str, name: str, root: Path) -> str:
    """The module that a name comes from: a façade is looked through, so that its other names do not count."""
    if _file(f"{base}.{name}", root):
        return f"{base}.{name}"
    path = _file(base, root)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(_tree(*_written(path))):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return _origin(_base(node, base, path), alias.name, root)
    return base
