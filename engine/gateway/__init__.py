"""What stands before the engine: who may see what, and how much each may have."""
