"""How adapters come in: sources behind an allow-list, manifests, archives, and the operations that register many."""
