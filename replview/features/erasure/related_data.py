"""What holds values of erased rows beside the record: found, then deleted as a whole."""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from replview.features.erasure import actor as erased_actor
from replview.features.erasure import related_rows as erased_beside
from replview.features.erasure.trails import Key
from replview.store.models import HistoryJob, Slot
from replview.targets.policy import read_policy

FILTERS = "saved filters"
MESSAGES = "quarantined messages"
LOOKS = "looks into slots"
RESULTS = "results of history jobs"


@dataclass(frozen=True, slots=True)
class Beside:
    """Of one act."""

    slot: Slot
    #: Table → the keys its rows had.
    keys: Mapping[str, Collection[Key]]
    #: Empty: none.
    actor: str

    def found(self) -> dict[str, set[int]]:
        """Thing → the identifiers of its rows."""
        filters, messages = set[int](), set[int]()
        for name, keys in self.keys.items():
            filters |= erased_beside.filters_naming(self.slot, name, keys)
            messages |= set(erased_beside.raw_messages(self.slot, [name], keys))
        if self.actor:
            filters |= erased_actor.filters_naming(self.slot, self.actor)
        looks = set(erased_beside.peeks_at(self.slot, list(self.keys)))
        return {FILTERS: filters, MESSAGES: messages, LOOKS: looks, RESULTS: self._jobs()}

    def erase(self, found: Mapping[str, set[int]]) -> dict[str, int]:
        """Thing → how many."""
        return {
            FILTERS: erased_beside.delete_filters(found[FILTERS]),
            MESSAGES: erased_beside.empty_raw(found[MESSAGES]),
            LOOKS: erased_beside.delete_peeks(found[LOOKS]),
            RESULTS: self.erase_results(),
        }

    def erase_results(self) -> int:
        """What history jobs gave of the tables, those that ran meanwhile among them."""
        jobs = self._jobs()
        outputs = HistoryJob.objects.filter(pk__in=jobs).values_list("output", flat=True)
        for output in list(outputs):
            _delete_output(output)
        return erased_beside.empty_results(jobs)

    def _jobs(self) -> set[int]:
        found = {pk for pk, _ in erased_beside.job_results(self.slot, list(self.keys))}
        return found | (set(erased_actor.results_naming(self.actor)) if self.actor else set())


def _delete_output(output: str) -> None:
    """All rows of a history job, where they stand in the instance's own folder."""
    own = read_policy().root.resolve() / "history-jobs"
    if output and Path(output).resolve().is_relative_to(own):
        shutil.rmtree(output, ignore_errors=True)
