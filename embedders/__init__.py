"""Text to vectors: one protocol, several models behind it.

Imports `lexicons` alone of ours. The heavy libraries are imported when a model is first used.
"""
