"""Tests of streams call the command line as those of the command line do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "cli"))
