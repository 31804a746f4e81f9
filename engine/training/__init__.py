"""Trains LoRA adapters on a decoder, with the engine's own forward pass, and measures what they learned."""
