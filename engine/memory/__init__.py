"""The device's memory: one allocation in pages, who owns them, and the sum of it all."""
