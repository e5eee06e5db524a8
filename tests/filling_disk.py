"""A disk that fills up in the middle of a write."""

import errno
import os


class FillingDisk:
    """Takes ``room`` more bytes, then says that there is no space left, as a file system does."""

    def __init__(self, room):
        self.room, self.write = room, os.write

    def __call__(self, descriptor, content):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.write(descriptor, bytes(content)[: self.room])
        self.room -= taken
        return taken
