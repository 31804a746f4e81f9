"""Accounts from the command line, while nothing serves."""
