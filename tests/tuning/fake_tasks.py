"""Tasks whose values are known: what a search does can be told from the numbers alone."""

import json
import os
import signal
import time
from pathlib import Path

from propml.tuning.spaces import Range


class Hill:
    """A trial is worth 1 − (x − 0.3)², and a little less in early epochs; every epoch leaves a line in ``log``."""

    method, title, is_large = "ridge", "Hill", False

    def __init__(self, epochs=1, log=None, seconds=0.0):
        self.space = {"x": Range(0.0, 1.0)}
        self.epochs, self.log, self.seconds, self.fixed = epochs, log, seconds, {}

    def facts(self):
        return {"method": "hill", "epochs": self.epochs}

    def value(self, x, epoch):
        return 1 - (x - 0.3) ** 2 - 0.01 * (self.epochs - epoch)

    def run(self, configuration, report, folder):
        start = 0
        checkpoint = None if folder is None else Path(folder) / "epoch.json"
        if checkpoint is not None and checkpoint.exists():
            start = json.loads(checkpoint.read_text())
        for epoch in range(start + 1, self.epochs + 1):
            if self.log is not None:
                with open(self.log, "a") as file:
                    file.write(f"{configuration['x']!r} {epoch} {os.getpid()}\n")
            time.sleep(self.seconds)
            self.happens(configuration["x"], epoch)
            if checkpoint is not None:
                checkpoint.write_text(json.dumps(epoch))
            if report(epoch, self.value(configuration["x"], epoch)):
                return

    def happens(self, x, epoch):
        """Nothing; others do worse things here."""

    def lines(self):
        """(x, epoch, pid) of every epoch that was begun."""
        if not Path(self.log).exists():
            return []
        rows = [line.split() for line in Path(self.log).read_text().splitlines()]
        return [(float(x), int(epoch), int(pid)) for x, epoch, pid in rows]


class Cliff(Hill):
    """Right of 0.5 there is no value."""

    def value(self, x, epoch):
        return float("nan") if x > 0.5 else super().value(x, epoch)


class Thirsty(Hill):
    """Right of its edge memory runs out: in Python, or (``kills``) so that the system kills the worker."""

    kills, edge = False, 0.5

    def happens(self, x, epoch):
        if x > self.edge:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError


class Deadly(Thirsty):
    kills, edge = True, 0.9


class Interrupted(Hill):
    """The third trial is interrupted from the keyboard."""

    count = 0

    def happens(self, x, epoch):
        self.count += 1
        if self.count == 3:
            raise KeyboardInterrupt


class KilledOnce(Hill):
    """At its third epoch the first trial that gets there kills its worker; next time it goes on."""

    def happens(self, x, epoch):
        mark = Path(self.log).with_name("killed")
        if epoch == 3 and not mark.exists():
            mark.write_text(repr(x))
            os.kill(os.getpid(), signal.SIGKILL)
