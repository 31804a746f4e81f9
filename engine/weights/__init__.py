"""Base weights: from files to parameters, and their digest."""
