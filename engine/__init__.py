"""The public door of the engine."""
