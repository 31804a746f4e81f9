"""What the engine measured about itself, for readers on other threads."""
