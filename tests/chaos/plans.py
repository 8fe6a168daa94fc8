"""Draws the transactions of a workload session from the seed, as plain steps.

A plan holds no state of the database: the same seed gives the same steps, whatever the sessions
beside it do. What a step finds (a row, a lock, a deadlock) depends on how the server interleaves
them, which no seed fixes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.rare_statements import ddl, large, long_message, message, truncate
from tests.chaos.statements import Step, small

#: The ways in which a transaction ends.
COMMIT, ROLLBACK, PREPARE = "commit", "rollback", "prepare"


@dataclass(frozen=True, slots=True)
class Part:
    """Steps under a savepoint, and whether it is rolled back to."""

    steps: "tuple[Step | Part, ...]"
    kept: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """One transaction."""

    number: int
    steps: tuple[Step | Part, ...]
    ending: str = COMMIT
    #: Tells whether a prepared transaction is committed, and after how many further ones of its
    #: session.
    prepared_kept: bool = True
    prepared_for: int = 0
    #: Commit without waiting for the WAL: a crash may lose it, and then the ledger says so.
    asynchronous: bool = False
    #: A message outside the transaction, sent from inside it: it survives a rollback.
    aside: str = ""
    pause_seconds: float = 0.0
    #: Between steps: faults are to hit open transactions, too.
    linger_seconds: float = 0.0


def plans(seed: int, session: int) -> Iterator[Plan]:
    """The transactions of one session, without end."""
    rng = random.Random(f"{seed}/{session}")
    number = 0
    while True:
        number += 1
        yield _plan(rng, session, number)


def _plan(rng: random.Random, session: int, number: int) -> Plan:
    kind = rng.choices(
        ["small", "savepoints", "large", "ddl", "truncate", "message", "private"],
        [60, 16, 6, 5, 2, 5, 3],
    )[0]
    linger = 0.0
    steps: list[Step | Part]
    if kind == "savepoints":
        steps = [*_small(rng), _part(rng, depth=rng.randint(1, 3)), *_small(rng)]
    elif kind == "large":
        linger = rng.choice([0.0, 0.05, 0.3])
        steps = _large(rng)
    elif kind == "ddl":
        steps = [*_small(rng, least=0), ddl(rng), *_small(rng, least=0)]
        if rng.random() < 0.3:
            steps.insert(rng.randint(0, len(steps)), Part((ddl(rng), *_small(rng)), kept=False))
    elif kind == "truncate":
        steps = [*_small(rng, least=0), truncate(rng), *_small(rng, least=0)]
    elif kind == "message":
        steps = [message(rng, f"{session}/{number}"), *_small(rng, least=0)]
    elif kind == "private":
        steps = [Step(f"INSERT INTO private VALUES ({number})", published=False)]
    else:
        steps = _small(rng)
    ending = rng.choices([COMMIT, ROLLBACK, PREPARE], [78, 8, 0 if kind == "ddl" else 14])[0]
    return Plan(
        number=number,
        steps=tuple(steps),
        ending=ending,
        prepared_kept=rng.random() < 0.65,
        prepared_for=rng.choice([0, 0, 1, 2, 5, 15]),
        asynchronous=rng.random() < 0.15,
        aside=f"{session}/{number}" if rng.random() < 0.03 else "",
        pause_seconds=rng.uniform(0.005, 0.08),
        linger_seconds=linger,
    )


def _small(rng: random.Random, least: int = 1) -> list[Step]:
    return [small(rng) for _ in range(rng.randint(least, 4))]


def _large(rng: random.Random) -> list[Step | Part]:
    """More than the server decodes in memory: streamed, with parts rolled back on the way."""
    steps: list[Step | Part] = []
    if rng.random() < 0.2:
        steps.append(long_message(rng))
    for _ in range(rng.randint(2, 5)):
        step = large(rng)
        shape = rng.random()
        if shape < 0.25:
            steps.append(Part((step, *_small(rng)), kept=False))
        elif shape < 0.5:
            steps.append(Part((step, Part((large(rng),), kept=rng.random() < 0.5)), kept=True))
        else:
            steps.append(step)
    return steps


def _part(rng: random.Random, depth: int) -> Part:
    steps: list[Step | Part] = list(_small(rng))
    if depth > 1:
        steps.insert(rng.randint(0, len(steps)), _part(rng, depth - 1))
    return Part(tuple(steps), kept=rng.random() < 0.5)
