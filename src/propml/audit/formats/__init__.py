"""File formats: tables by columns and matrices, read sparingly and written again with other labels."""
