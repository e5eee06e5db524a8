"""Learning from candidate labels: partial multi-label learning for PyTorch and scikit-learn."""

from propml.targets import Candidates, as_candidates

__all__ = ["Candidates", "__version__", "as_candidates"]

__version__ = "0.1.0"
