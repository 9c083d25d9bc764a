"""What the server process of the demo imports before it forks: all that a command of either program loads."""

import os

from embedders.fastembed import TELEMETRY_SWITCHES

for _switch in TELEMETRY_SWITCHES:  # the runtime reports home from its import on
    os.environ.setdefault(_switch, "1")

import atproto_client  # noqa: E402, F401
import fastembed  # noqa: E402, F401

import appview.cli  # noqa: E402, F401
import publisher.cli  # noqa: E402
import publisher.publisher  # noqa: E402, F401
