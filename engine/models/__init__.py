"""Decoders: what they are made of, and their forward pass."""
