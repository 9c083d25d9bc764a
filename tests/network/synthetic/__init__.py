"""A test network in this process that signs real commits: keys, trees, CARs, frames, PDSes and a directory.

It exists beside the official PDS because that one is too slow for volume and too honest for attacks. It
imports nothing of the product, so that the two can disagree.

    async with Network() as network:
        alice = network.account("alice.test")
        network.create(alice, "garden.engram.memory", "3k2a", {...})
        network.create(alice, "garden.engram.memory", "3k2b", {...}, corrupt="high-s")
"""

from tests.network.synthetic.corruptions import CORRUPTIONS
from tests.network.synthetic.directory import Directory
from tests.network.synthetic.keys import K256, P256, SigningKey
from tests.network.synthetic.malformed import (
    FIELDS,
    GOOD_FIELDS,
    MALFORMED_FRAMES,
    RECORDS,
    oversized_frame,
    padded,
    with_raw,
)
from tests.network.synthetic.mirrors import Jetstream, Tap
from tests.network.synthetic.network import Network
from tests.network.synthetic.pds import Firehose, Pds
from tests.network.synthetic.repos import Account, Draft, Write, error_frame, frame, info_frame, tid

__all__ = [
    "CORRUPTIONS",
    "FIELDS",
    "GOOD_FIELDS",
    "K256",
    "MALFORMED_FRAMES",
    "P256",
    "RECORDS",
    "Account",
    "Directory",
    "Draft",
    "Firehose",
    "Jetstream",
    "Network",
    "Pds",
    "SigningKey",
    "Tap",
    "Write",
    "error_frame",
    "frame",
    "info_frame",
    "oversized_frame",
    "padded",
    "tid",
    "with_raw",
]
