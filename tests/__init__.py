"""The suite; a package of its own, so that no other `tests` on the path is taken for it."""
