"""What candidates may hold, and who looks."""

import torch
from torch import Tensor


def check_marks(marks: Tensor, mask: Tensor | None = None) -> None:
    """Refuse what is neither 1 (candidate), 0 (excluded) nor -1 or NaN (unknown), unless it is masked.

    A GPU is not asked, the host would have to wait for the answer; nor can compiled and transformed code look at
    values. There a candidate is what lies above 0.5, and unknown what does not lie above -0.5.
    """
    if marks.device.type != "cpu" or marks.dtype == torch.bool or torch.compiler.is_compiling():
        return
    if type(marks) not in (Tensor, torch.nn.Parameter) or torch._C._are_functorch_transforms_active():
        return
    wrong = states_of(marks) == 2
    if mask is not None:
        wrong &= mask != 0
    if wrong.any():
        raise ValueError(
            f"candidates hold {marks[wrong][0].item():g}; give 1 for a candidate, 0 for an excluded label, and -1 or "
            "NaN for an unknown one (refined_loss takes values between 0 and 1)"
        )


def states_of(marks: Tensor) -> Tensor:
    """Marks of any type as 1, 0 and -1 in int8, and 2 where they are none of these."""
    candidate, excluded, unknown = marks == 1, marks == 0, (marks == -1.0) | (marks != marks)
    others = ~(candidate | excluded | unknown)
    return candidate.to(torch.int8) - unknown.to(torch.int8) + 2 * others.to(torch.int8)
