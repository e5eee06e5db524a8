"""Kernels behind the losses: value and gradient in one pass over the logits.

:mod:`.fused` decides whether a kernel applies and takes part in automatic differentiation, :mod:`.rows` is the form in
which a kernel is given its problem. :mod:`.triton_rows` computes rows on a GPU, :mod:`.c_rows` on the CPU.
"""
