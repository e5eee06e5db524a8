"""``propml`` on a terminal or in a log that cannot show every character."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_characters_that_an_encoding_lacks_are_replaced(encoding):
    words = [sys.executable, "-c", "from propml.cli import main; main()"]
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*words, "fit", "--help"], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "the choice of ? and versions" in " ".join(done.stdout.decode(encoding).split())
    done = subprocess.run([*words, "fit", "λ.csv"], capture_output=True, env=environment)
    assert (done.returncode, done.stderr.decode(encoding)) == (
        1,
        "error: \\u03bb.csv does not exist or is not a file\n",
    )
