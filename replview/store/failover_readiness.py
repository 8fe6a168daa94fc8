"""Find out whether a slot would survive a failover: its copy on each standby that replview knows.

A standby is known as a source of the same cluster (``system_identifier``) in recovery. Source:
PostgreSQL 17, documentation, "Logical Replication Failover": a slot is ready where its copy is
synced, not temporary and not invalidated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.store.models import Source, SourceLook, WatchedSlot

#: First version that synchronizes slots to a standby.
FIRST_VERSION = 170000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnStandby:
    """The state of a primary's slot on one standby."""

    standby: str
    #: True when the copy is ready for a failover; None: unknown.
    ready: bool | None
    #: ``missing``, ``not_synced``, ``temporary``, ``invalidated``, ``unknown``, or empty.
    why: str = ""
    #: PostgreSQL's reason of an invalidated copy.
    reason: str = ""
    #: The standby's settings that keep slots from being synced.
    lacking: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Standbys:
    """The standbys of one primary, their slots by name, and their settings for failover."""

    primary: Source
    sources: list[Source] = field(default_factory=list)
    slots: dict[int, dict[str, WatchedSlot]] = field(default_factory=dict)
    settings: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def waits_for_none(self) -> bool | None:
        """Return whether the primary waits for no standby; None: unknown.

        Readers may then be ahead of every standby.
        """
        return waits_for_none(self.settings.get(self.primary.pk, {}))

    def of(self, slot_name: str) -> list[OnStandby]:
        """Return the state of a slot on each standby."""
        return [
            _on_standby(
                source,
                self.slots.get(source.pk, {}).get(slot_name),
                self.settings.get(source.pk, {}),
            )
            for source in self.sources
        ]


def read_standbys(primary: Source) -> Standbys:
    """Read the standbys of a primary, in three queries; none if its identity is unknown."""
    standbys = Standbys(primary=primary)
    if primary.system_identifier:
        same_cluster = Source.objects.filter(system_identifier=primary.system_identifier)
        standbys.sources = list(same_cluster.filter(in_recovery=True).exclude(pk=primary.pk))
    ids = [source.pk for source in standbys.sources]
    for slot in WatchedSlot.objects.filter(source__in=ids, gone_at=None) if ids else ():
        standbys.slots.setdefault(slot.source_id, {})[slot.name] = slot
    standbys.settings = read_failover_settings([primary.pk, *ids])
    return standbys


def read_failover_settings(sources: Iterable[int]) -> dict[int, Mapping[str, Any]]:
    """Return what ``catalog.server`` reported of each source; absent where it never did."""
    looks = SourceLook.objects.filter(source__in=list(sources))
    rows = looks.values_list("source_id", "holders__failover_settings")
    return {pk: value for pk, value in rows if isinstance(value, dict)}


def waits_for_none(settings: Mapping[str, object]) -> bool | None:
    """Return whether a primary's ``synchronized_standby_slots`` is empty; None: unknown."""
    value = settings.get("synchronized_standby_slots")
    return None if value is None else not str(value).strip()


def lacking_settings(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return the settings without which a standby syncs no slot; unknown ones are not included."""
    switches = ("sync_replication_slots", "hot_standby_feedback")
    lacking = [name for name in switches if settings.get(name) == "off"]
    if settings.get("primary_slot_name") == "":
        lacking.append("primary_slot_name")
    if settings.get("primary_conninfo_names_database") is False:
        lacking.append("primary_conninfo")
    return tuple(lacking)


def _on_standby(
    source: Source, copy: WatchedSlot | None, settings: Mapping[str, object]
) -> OnStandby:
    if (source.server_version or 0) < FIRST_VERSION or source.problem_code:
        return OnStandby(standby=source.name, ready=None, why="unknown")
    facts = copy.facts if copy is not None and isinstance(copy.facts, dict) else {}
    reason = str(facts.get("invalidation_reason") or "")
    # A copy that is no longer updated can still be used, with a larger gap the older it is.
    why = ""
    if copy is None:
        why = "missing"
    elif reason or facts.get("wal_status") == "lost":
        return OnStandby(
            standby=source.name, ready=False, why="invalidated", reason=reason or "lost"
        )
    elif facts.get("synced") is not True:
        why = "not_synced"
    elif copy.temporary is not False and facts.get("temporary") is not False:
        why = "temporary"
    lacking = lacking_settings(settings)
    return OnStandby(standby=source.name, ready=not why, why=why, lacking=lacking)
