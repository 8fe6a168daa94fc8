// The empty list: why it is empty, the proof that we looked, one thing to do. And what is below it.

import { find } from "../ui/dom.js";
import { publishedTables, put } from "./sentence.js";
import { age } from "../ui/words.js";

export function showEmpty(page) {
  const { stream, list, band, filters, connected } = page;
  const { onlyOpen } = filters;
  const empty = stream.loaded && connected && !list.size && !(onlyOpen && band.size) && !stream.since;
  const oldest = list.oldestSeq();
  const more = stream.loaded && !onlyOpen
    && (list.dropped || stream.searchedTo > 1 || (oldest?.seq > 1 && stream.searchedTo !== 0));
  find("list-end").hidden = !more;
  put("older", list.size ? "Load older" : filters.any ? "Search further back" : "Load the last ones");
  find("empty").hidden = !empty;
  if (!empty) return;
  const stored = stream.slot?.stored > 0 || more;
  const [title, why] = onlyOpen ? nothingOpen(filters)
    : filters.any ? ["Nothing matches", `No transaction so far matches the filters. New matches appear here.${above(band)}`]
      : stored ? ["Cleared", `New transactions appear here as they commit.${above(band)}`]
        : ["No commits yet", `${proof(page)}${above(band)}`];
  put("empty-title", title);
  put("empty-why", why);
  find("empty-action").hidden = !filters.any;
  put("empty-action", "Clear the filters");
  find("test-message").hidden = filters.any || stored;
}

const above = (band) => (band.size ? " What is still open stands above." : "");

function nothingOpen(filters) {
  const { states } = filters.values;
  const other = filters.others ? " that passes the other filters" : "";
  const kind = states === "open" ? "open" : states.replace(",", " or ");
  return [
    `Nothing is ${kind}`,
    `No transaction${other} is ${kind} now. One appears here once it is prepared, or larger than logical_decoding_work_mem.`,
  ];
}

function proof({ stream, clock }) {
  const { slot } = stream;
  const checked = slot?.heartbeat_ms && clock.known ? `, checked ${age(clock.server() - slot.heartbeat_ms)} ago` : "";
  const at = slot?.lsn ? `Connected at ${slot.lsn}${checked}.` : "No position is known yet.";
  return `${at} No commits${publishedTables(slot, " on ", " on the published tables")}.`;
}
