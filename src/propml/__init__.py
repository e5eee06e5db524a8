"""Learning from candidate labels: partial multi-label learning for PyTorch and scikit-learn."""

from typing import TYPE_CHECKING, Any

from propml.targets import Candidates, as_candidates

if TYPE_CHECKING:
    from propml import benchmark
    from propml.auditing import audit
    from propml.losses import ProPMLLoss, propml_loss
    from propml.methods import load
    from propml.methods.propml import ProPMLClassifier
    from propml.neural.path import lambda_path

__all__ = [
    "Candidates",
    "ProPMLClassifier",
    "ProPMLLoss",
    "__version__",
    "as_candidates",
    "audit",
    "benchmark",
    "lambda_path",
    "load",
    "propml_loss",
]

__version__ = "0.1.0"

# Imported when first asked for: torch and scikit-learn take seconds, and a program that reads labels needs neither.
_LAZY = {
    "audit": "propml.auditing",
    "benchmark": "propml.benchmark",
    "ProPMLClassifier": "propml.methods.propml",
    "ProPMLLoss": "propml.losses",
    "lambda_path": "propml.neural.path",
    "load": "propml.methods",
    "propml_loss": "propml.losses",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'propml' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    return module if module.__name__ == f"propml.{name}" else getattr(module, name)
