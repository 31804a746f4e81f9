"""Adapters: parse or refuse, pack into pages, keep in tiers, load and evict."""
