"""Asking other servers: one guarded client for everything that goes out."""
