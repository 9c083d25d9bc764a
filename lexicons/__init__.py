"""The contract: JSON schemas of `garden.engram.*`, their validation and the record codecs.

Imports nothing of the other packages and nothing heavy, so that both halves and any client can use it.
"""
