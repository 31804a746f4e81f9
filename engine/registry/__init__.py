"""What outlasts the process: who may serve what, to whom, how much."""
