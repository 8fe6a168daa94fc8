"""What the plan and doctor say for a terminal, said for a page: no option of a command is named."""

import re

from replview.catalog.doctor.findings import Finding
from replview.catalog.problems import SourceProblem

#: What a baseline asks of its source.
BASELINE_COST = (
    "Each table is read once from beginning to end by one walsender, under ACCESS SHARE: reading "
    "and writing go on, but ALTER TABLE, TRUNCATE and VACUUM FULL wait until it is read, and so "
    "does vacuum for rows that die meanwhile (the snapshot holds back xmin). To begin, a temporary "
    "replication slot is made, and dropped at once: it needs a free slot, and waits up to five "
    "minutes, holding WAL, for the transactions that are open on the server, prepared ones too."
)
#: A text as the catalog writes it → the same for somebody who sees the steps.
_SAID = (
    (r" \(--no-two-phase\)", ""),
    (r": --failover has standbys with sync_replication_slots keep it",
     "; the option Survive a failover has standbys with sync_replication_slots keep it"),
    (r" \(--wal-budget 10GB sets one\)", ""),
    (r" \(--protect record: warn only\)", ""),
    (r", or take it over with --adopt \(.*\)$", " for the slot, in the step Options"),
    (r"Leave --adopt out to create it", "Choose another name"),
    (r"Create one there and give it with --publication",
     "Create one there and choose it in the step Tables"),
    (r"Create their publication as their owner and give it with --publication",
     "Have their owner create a publication, and choose it in the step Tables"),
    (r"give it with --publication", "choose it in the step Tables"),
    (r"Use it with --publication \S+ or choose another slot name|"
     r"Use it with --publication .+, or choose another slot name",
     "Choose it in the step Tables, or another name for the slot in the step Options"),
    (r"name an existing publication with --publication",
     "choose an existing publication in the step Tables"),
    (r"Correct --publication, or leave it out to have one made", "Choose again in the step Tables"),
    (r"Choose with --publication among: .+", "Choose fewer of them in the step Tables"),
    (r"Choose other tables with --tables", "Choose other tables"),
    (r"Correct --(tables|schema)\b.*", "Choose the tables again: they have changed"),
    (r"Correct --(exclude|mask)-column.*", "Choose the columns again: they have changed"),
    (r"Use --mask-column: its value", "Mask it instead: its value"),
    (r"Leave --publication, --tables, --schema and --all-tables out", "Choose another slot"),
    (r"Leave --all-tables out.*", "Choose the tables one by one, in the step Tables"),
    (r"Leave --failover out", "Switch Survive a failover off"),
    (r"Leave --heartbeat out|Correct --heartbeat", "Correct the heartbeat in the step Options"),
    (r"Correct --wal-budget", "Correct the WAL budget in the step Options"),
    (r", or use an existing publication \(--publication\)",
     ", or choose an existing publication in the step Tables"),
    (r"or use an existing publication \(--publication\)",
     "or choose an existing publication in the step Tables"),
    (r"receive the slot through SQL functions instead: replview slot interface SOURCE NAME sql "
     r"\(or --interface sql when adding it\)",
     "choose SQL functions in the step Options, under How it is read"),
    (r": replview slot add shows the statements", ""),
    (r"\. Ctrl-C stops and leaves nothing behind", ""),
    (r"Run the command again", "Try again"),
    (r"Correct the DSN\b", "Correct it"),
    (r" in the DSN\b", ""),
    (r"\b(t|T)he DSN\b", r"\1he address"),
)  # fmt: skip
_COMPILED = [(re.compile(pattern, re.DOTALL), words) for pattern, words in _SAID]


def for_page(text: str) -> str:
    """A sentence of the catalog as a page says it."""
    for pattern, words in _COMPILED:
        text = pattern.sub(words, text)
    return text


def trouble_for_page(trouble: SourceProblem) -> SourceProblem:
    """A trouble as a page tells it."""
    return SourceProblem(trouble.code, for_page(trouble.cause), for_page(trouble.remedy))


def finding_for_page(finding: Finding) -> Finding:
    """A finding as a page tells it."""
    return Finding(finding.grade, finding.code, for_page(finding.message), for_page(finding.remedy))


def sentence(text: str) -> str:
    """Begun with a capital letter, unless its first word is a name: ``max_slot_wal_keep_size``,
    ``replview``.
    """
    return text[:1].upper() + text[1:] if re.match(r"(?!replview)[a-z]+(?![\w.])", text) else text
