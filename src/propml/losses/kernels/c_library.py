"""``rows.c``, compiled with the machine's own C compiler when it is first needed, and kept for the next time.

Where there is no compiler, or the environment variable ``PROPML_COMPILER`` is ``none``, nothing is compiled, and the
CPU computes the plain formulas with PyTorch. The variable may also name a compiler. The library is kept in the folder
``compiled`` of :func:`propml.devices.cache_dir`, one for each source, compiler and kind of processor, unless
others than this user could have put it there: then each process compiles its own.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import torch

from propml.devices import cache_dir

__all__ = ["library"]

LOG = logging.getLogger("propml.losses")
SOURCE = Path(__file__).with_name("rows.c")
# The sums that may be taken in any order, as a vector of partial sums, are marked in the source. To allow it everywhere
# (-fassociative-math) would turn w (t q) into (w q) t, which is 0 where w q is less than float32 holds.
FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fPIC")
# The best first. With OpenMP the threads are PyTorch's own: nothing is linked, its library is in the process already.
BUILDS = (("-march=native", "-fopenmp"), ("-march=native",), ())


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or ``None`` where there is no way to it."""
    chosen = os.environ.get("PROPML_COMPILER") or "cc"
    compiler = None if chosen == "none" else shutil.which(chosen)
    if compiler is None:
        return None
    try:
        loaded = _kept(compiler) or _made(compiler)
    except (OSError, subprocess.SubprocessError) as error:
        LOG.warning("propml's losses cannot be compiled (%s); plain PyTorch computes them, more slowly", error)
        return None
    loaded.propml_rows.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
    loaded.has_threads = bool(loaded.propml_has_threads())  # type: ignore[attr-defined]  # asked once
    return loaded


def _kept(compiler: str) -> ctypes.CDLL | None:
    """The library of an earlier process, where there is one that can be loaded and trusted."""
    folder = _folder()
    path = folder / _name(compiler)
    try:
        return ctypes.CDLL(str(path)) if _is_private(folder) and _is_own(path) else None
    except OSError:  # there is none, or it was damaged: it is made anew
        return None


def _made(compiler: str) -> ctypes.CDLL:
    """Compile, and keep the library where nobody else can change it; elsewhere it goes once it is loaded."""
    folder = _folder()
    obstacle = _obstacle(folder)
    where = f"for this process alone: {obstacle}" if obstacle else f"once, and keeps them in {folder}"
    # Without any logging set up, Python writes a warning to stderr: who waits for a first loss sees why.
    LOG.warning("propml compiles its losses with %s, %s (PROPML_COMPILER=none: plain PyTorch instead)", compiler, where)
    with tempfile.TemporaryDirectory(dir=None if obstacle else folder, ignore_cleanup_errors=True) as scratch:
        made = _build(compiler, Path(scratch))
        if not obstacle:
            made.chmod(0o700)
            made = made.replace(folder / _name(compiler))  # at once: another process may be looking
        return ctypes.CDLL(str(made))


def _folder() -> Path:
    """Where the libraries are kept, with links followed: what is checked is what is used."""
    return (cache_dir() / "compiled").resolve()


def _obstacle(folder: Path) -> str:
    """Why nothing can be kept in a folder, which is made where it is not there yet."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    if not os.access(folder, os.W_OK):
        return f"{folder} cannot be written"
    return "" if _is_private(folder) else f"others can change {folder}"


def _is_private(folder: Path) -> bool:
    """Whether nobody but this user and root can put a file of theirs there, on systems that tell.

    A group may write the folders above: at home it is often the user's own. What it puts there is not this user's.
    """
    if not hasattr(os, "getuid"):
        return True
    above = [parent.stat() for parent in folder.parents]
    open_to_all = any(parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX for parent in above)
    return _is_own(folder) and not open_to_all and all(parent.st_uid in (0, os.getuid()) for parent in above)


def _is_own(path: Path) -> bool:
    """Whether it is this user's, and no link, and nobody else may write it, on systems that tell."""
    found = path.lstat()
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and not stat.S_ISLNK(found.st_mode)


def _name(compiler: str) -> str:
    """A library's name tells what it was made of, with what and for what."""
    what = "\n".join(
        (SOURCE.read_text(encoding="utf-8"), compiler, str(BUILDS), *FLAGS, torch.__version__, _processor())
    )
    return f"rows-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"


def _build(compiler: str, folder: Path) -> Path:
    """Compile as well as can be: not every compiler knows the processor, and not every PyTorch comes with OpenMP."""
    failure: Exception = OSError("nothing was tried")
    for number, flags in enumerate(BUILDS):
        middle, made = folder / f"{number}.o", folder / f"{number}.so"
        try:
            for step in (
                ["-c", *flags, *FLAGS, str(SOURCE), "-o", str(middle)],
                ["-shared", str(middle), "-o", str(made)],
            ):
                subprocess.run([compiler, *step, "-lm"], capture_output=True, timeout=60, check=True)
            ctypes.CDLL(str(made))
        except (OSError, subprocess.SubprocessError) as error:
            failure = error
        else:
            return made
    raise failure


def _processor() -> str:
    """What tells kinds of processors apart that share a home directory."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return platform.machine() + next((line for line in lines if line.startswith(("flags", "Features"))), "")
