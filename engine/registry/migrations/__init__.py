"""How the registry's tables came to be, step by step."""
