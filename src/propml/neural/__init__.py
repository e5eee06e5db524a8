"""The fleet: many networks trained at once, and everything chosen on held-out candidates."""
