"""What a number was measured with, and what it took: versions, commit, machine and memory; no path and no host name.

Whether it is still what the code would give tells a fingerprint of the modules that made it: the method's, and every
module of this package that it imports, directly or not, but for those that only read, write or say something. They are
read and parsed, and never imported. Comments, docstrings, layout, types, the words of errors and warnings, and the
names of files leave the fingerprint as it is.

Data, candidates, splits and metrics are not in it: tests pin them, and ``PROTOCOL`` in :mod:`propml.benchmark.cell`,
which is part of a cell's settings, counts their changes.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import platform
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import propml
from propml.benchmark.results import CellResult
from propml.devices import usable_cores
from propml.extras import versions

ROOT = Path(propml.__file__).parents[1]  # that the package lies in
PACKAGE = "propml"
# What a cell on images runs through: its method is a recipe of these, or one for tables that is given features.
IMAGE_MODULES = ("propml.vision.training", "propml.vision.predict")
FEATURE_MODULES = ("propml.vision.deep_features", "propml.vision.training_data")
# Rooms and modules that read, write or say something, and kernels, which tests hold to the losses' plain code. No
# number depends on them, so no fingerprint does.
APART = (
    "propml.losses.kernels",
    *("propml.datasets", "propml.tables", "propml.methods.registry"),
    *("propml.atomic_files", "propml.devices", "propml.extras", "propml.file_errors", "propml.jsonable"),
    *("propml.messages", "propml.output", "propml.persistence", "propml.progress"),
    *("propml.schema", "propml.unpacking"),
)
# Parts of a syntax tree that do nothing when code runs.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
IDLE = ("annotation", "returns", "ctx", "kind", "type_comment", "type_params")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "timm", "torchvision", "ray")


def run_provenance(command: Sequence[str] | None = None, **facts: Any) -> dict[str, Any]:
    """Everything needed to judge a run later; ``facts`` are further entries, such as ``workers=2``.

    The command is what was typed, by default the arguments of this process. ``run`` is a name, which rows refer to.
    """
    import torch

    started = datetime.now(UTC)
    commit, dirty = _commit()
    return {
        "run": f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
        "propml": propml.__version__,
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "packages": versions(LIBRARIES),
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": usable_cores(),
        "started": started.isoformat(timespec="seconds"),
        "command": shlex.join(_without_places(part) for part in (sys.argv if command is None else command)),
        **facts,
    }


@functools.cache
def _commit() -> tuple[str | None, bool | None]:
    """Of the checkout that this package was imported from; whether the package in it was changed since."""
    folder = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        # Takes no lock, so that it disturbs neither an editor nor a commit.
        command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()

    try:
        # An installed package may lie inside somebody else's checkout, which says nothing about it.
        if not git("ls-files", "__init__.py"):
            return None, None
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _without_places(argument: str) -> str:
    """Only the last part of an absolute path, and no host of an address."""
    option, equals, value = argument.rpartition("=")
    if "://" in value:
        value = f"{value.partition('://')[0]}://HOST"
    elif re.fullmatch(r"[\w.\[\]:-]+:\d+", value):
        value = "HOST"
    elif PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute() or value.startswith("~"):
        value = PureWindowsPath(value).name  # knows both kinds of slashes
    return f"{option}{equals}{value}"


@contextmanager
def watch_machine(gpu: bool) -> Iterator[dict[str, Any]]:
    """The name of the GPU that the block runs on, or "cpu"; once it has ended, also the most bytes that it held."""
    machine: dict[str, Any] = {"device": "cpu"}
    if gpu:
        import torch

        torch.cuda.reset_peak_memory_stats()
        machine["device"] = torch.cuda.get_device_name()
        yield machine
        machine["peak_bytes"] = int(torch.cuda.max_memory_allocated())
        return
    # The peak of this process starts anew, so that a cell is not charged for the one before; Linux can do that.
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    # One thread: cells run side by side, and BLAS threads that wait for each other cost more than they bring.
    with threadpool_limits(1, user_api="blas"):
        yield machine
    with suppress(ImportError):  # on Windows, where nobody says
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        machine["peak_bytes"] = most if sys.platform == "darwin" else most * 1024


# -- fingerprints of code ----------------------------------------------------------------------------------------------


def age(cell: CellResult) -> str:
    """Of a stored result: ``"current"``, ``"changed"`` where its code has changed since, ``"unknown"`` for old ones."""
    return age_of(cell.fingerprint, made_by(cell.settings))


def age_of(code: str, modules: Sequence[str]) -> str:
    """The same of a fingerprint, given the modules that compute such a result today."""
    if not code:
        return "unknown"
    return "current" if modules and set(code.split()) == {fingerprint(modules)} else "changed"


def origin(cells: Iterable[CellResult]) -> tuple[str, str]:
    """Commit and fingerprint that cells share: all of them where they differ, and none where one is not known."""
    given = list(cells)
    commits, codes = ([getattr(cell, name) for cell in given] for name in ("commit", "fingerprint"))
    commit, code = (" ".join(dict.fromkeys(each)) if all(each) else "" for each in (commits, codes))
    return commit, code


def made_by(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules that compute a cell with these settings; none where its method is not there any more."""
    from propml.benchmark.rivals import RIVALS
    from propml.methods import METHODS

    images = settings.get("kind") == "images"
    method = settings.get("params", {}).get("method") if images else settings.get("method")
    if images and method is None:
        return IMAGE_MODULES
    if method in RIVALS:
        modules: tuple[str, ...] = ("propml.benchmark.rivals",)
    elif method in METHODS:
        modules = (METHODS[method].module,)
    else:
        return ()
    oracle = method == "propml" and settings.get("selection") == "oracle"
    return (*modules, *(FEATURE_MODULES if images else ()), *(["propml.paper.oracle"] if oracle else []))


def fingerprint(modules: Iterable[str], root: Path = ROOT) -> str:
    """Sixteen digits that stand for the code of these modules and of all that they import from the package."""
    found = (_file(name, root) for name in with_imports(modules, root))
    texts = sorted(_code(path.read_text(encoding="utf-8")) for path in found if path)
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def with_imports(modules: Iterable[str], root: Path = ROOT) -> set[str]:
    """The modules, and those of the package that they import, directly or not, but for those that stand ``APART``."""
    found: set[str] = set()
    waiting = [name for name in modules if _file(name, root)]
    while waiting:
        name = waiting.pop()
        if name not in found and not f"{name}.".startswith(tuple(f"{each}." for each in APART)):
            found.add(name)
            waiting += [other for other in _imported(name, root) if _file(other, root)]
    return found


def _file(module: str, root: Path) -> Path | None:
    place = root.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


_parsed = functools.cache(ast.parse)


@functools.cache
def _code(text: str) -> str:
    return _bare(_parsed(text))


def _bare(node: Any) -> str:
    """What a syntax tree does, as text that is the same in all versions of Python."""
    if isinstance(node, list):
        return ",".join(map(_bare, node))
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Import | ast.ImportFrom) and _is_own(node):
        return ""  # its code is counted where it stands
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return _bare(node.orelse)
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node = node.exc.func
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
        node = node.func
    fields = {name: value for name, value in ast.iter_fields(node) if name not in IDLE and value not in (None, [])}
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return f"{type(node).__name__}({';'.join(f'{name}={_bare(value)}' for name, value in fields.items())})"


def _is_own(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or (node.module or "").partition(".")[0] == PACKAGE
    return all(alias.name.partition(".")[0] == PACKAGE for alias in node.names)


def _imported(module: str, root: Path) -> Iterator[str]:
    """What a module imports when it runs; what only type checkers import is left out."""
    path = _file(module, root)
    assert path is not None
    waiting: list[ast.AST] = [_parsed(path.read_text(encoding="utf-8"))]
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
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package)


def _origin(base: str, name: str, root: Path) -> str:
    """The module that a name comes from: a façade is looked through, so that its other names do not count."""
    if _file(f"{base}.{name}", root):
        return f"{base}.{name}"
    path = _file(base, root)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(_parsed(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return _origin(_base(node, base, path), alias.name, root)
    return base
