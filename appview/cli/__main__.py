"""`python -m appview.cli`: the command where the distribution is not installed."""

from __future__ import annotations

from appview.cli import main

if __name__ == "__main__":
    main()
