"""One file, one page."""
