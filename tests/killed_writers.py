"""A process that writes and is killed after so many of its steps."""

import os
import warnings
from pathlib import Path


def killed_after(steps, write):
    """Call ``write`` in a copy of this process that dies at its next write, sync, rename or removal after so many.

    Returns
    -------
    bool
        Whether it lived to the end.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that the copy has not: it needs none
        child = os.fork()
    if not child:
        try:
            _die_after(steps)
            write()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 0


def _die_after(steps):
    left = [steps]

    def dying(function):
        def step(*arguments, **settings):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return function(*arguments, **settings)

        return step

    for name in ("replace", "fsync", "write", "mkdir"):
        setattr(os, name, dying(getattr(os, name)))
    Path.unlink = dying(Path.unlink)
