"""Keys and values of tokens: how they lie in a page, and which pages are shared."""
