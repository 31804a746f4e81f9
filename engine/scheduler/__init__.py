"""Which tokens of which sequences the next forward pass computes."""
