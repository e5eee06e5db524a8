"""Learning from candidate labels: partial multi-label learning for PyTorch and scikit-learn."""

__version__ = "0.1.0"
