"""Sample adapters for a fresh start and for scale tests: made up, and marked so."""
