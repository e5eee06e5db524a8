"""Columns: what their cells are, and what becomes of them as features."""
