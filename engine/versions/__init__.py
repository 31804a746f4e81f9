"""What happens to versions and names: the gate, moves, canaries, retirement, the archive, pins and the warm set."""
