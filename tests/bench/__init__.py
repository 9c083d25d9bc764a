"""Measurements, by command: `make bench`, or a part of them with `make bench ONLY=<name prefix>`.

Each prints what it measured beside a baseline taken in the same run. Nothing here passes or fails a test.
"""
