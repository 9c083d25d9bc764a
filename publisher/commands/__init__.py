"""The commands of `engram-publisher`, one module a subject.

Each function reads flags, calls the library and prints. What is heavy is imported inside the functions, so
that help answers at once.
"""
