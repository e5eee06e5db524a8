"""Protocol, results and reports."""
