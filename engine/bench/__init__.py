"""How fast it is, against itself, its peers and the naive ways: ``python -m engine.bench``."""
