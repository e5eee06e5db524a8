"""Streams: folders of Parquet files with more rows than fit into memory go in, partitions of Parquet come out.

:func:`stream_audit` finds wrong labels with models of a sample, which never saw the rows that they judge, and
:func:`stream_apply` applies the decisions of who reviewed them;
:func:`stream_fit` fits a model on such a sample, :func:`stream_predict` and :func:`stream_evaluate` take a saved model
to every row. Each goes part by part, in this process or on Ray, and goes on where it was stopped.
"""

from propml.streaming.audit import stream_apply, stream_audit
from propml.streaming.models import stream_evaluate, stream_fit, stream_predict

__all__ = ["stream_apply", "stream_audit", "stream_evaluate", "stream_fit", "stream_predict"]
