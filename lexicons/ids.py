"""Every NSID of the contract. No other module spells one out."""

from __future__ import annotations

from typing import Final

from lexicons.syntax import Nsid

NAMESPACE: Final = "garden.engram"

MEMORY: Final = Nsid("garden.engram.memory")
CONFIG: Final = Nsid("garden.engram.config")
DEFS: Final = Nsid("garden.engram.defs")

SEARCH_MEMORIES: Final = Nsid("garden.engram.searchMemories")
GET_MEMORY: Final = Nsid("garden.engram.getMemory")
RECALL_MEMORIES: Final = Nsid("garden.engram.recallMemories")
GET_MEMORY_GRAPH: Final = Nsid("garden.engram.getMemoryGraph")
GET_MEMORY_LINKS: Final = Nsid("garden.engram.getMemoryLinks")
LIST_MEMORIES: Final = Nsid("garden.engram.listMemories")
GET_SPACE_STATUS: Final = Nsid("garden.engram.getSpaceStatus")
DESCRIBE_SERVICE: Final = Nsid("garden.engram.describeService")
LIST_SPACES: Final = Nsid("garden.engram.listSpaces")
LIST_PATHS: Final = Nsid("garden.engram.listPaths")
GET_PATH: Final = Nsid("garden.engram.getPath")
PUT_MEMBER: Final = Nsid("garden.engram.putMember")
REMOVE_MEMBER: Final = Nsid("garden.engram.removeMember")
LIST_MEMBERS: Final = Nsid("garden.engram.listMembers")
PUT_PATH_TAG: Final = Nsid("garden.engram.putPathTag")
REMOVE_PATH_TAG: Final = Nsid("garden.engram.removePathTag")

CONFIG_RKEY: Final = "self"
