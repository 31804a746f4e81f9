"""One forward pass: plan to tensors, tensors to tokens."""
