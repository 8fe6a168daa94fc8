"""The actors and origins of the generated record's transactions."""

#: The last has done next to nothing; who did it is not known of four in ten transactions.
_NAMES = (
    "alice bob carol dave erin frank grace heidi ivan judy mallory niaj olivia peggy rupert sybil"
    " trent victor walter zoe"
)
ACTORS = _NAMES.split()
RARE_ACTOR = ACTORS[-1]
ORIGINS = ("replica_eu", "replica_us", "import")
