"""Parts of a page; each takes a value or a page's pulse, never the engine."""
