"""What was measured, as a page to read and tables to use: HTML, Markdown, LaTeX and CSV from one model."""

from propml.benchmark.report.model import Report, Section, build_report
from propml.benchmark.report.writing import FORMATS, write_report

__all__ = ["FORMATS", "Report", "Section", "build_report", "write_report"]
