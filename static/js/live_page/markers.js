// Lines that are no transaction: the slot's log, folded transactions, gaps of this browser.

import { markerItem } from "./list.js";
import { buildMarker } from "./row.js";
import { age, plural } from "../ui/words.js";

let number = 0;

export function eventItem({ id, event, inc, seq, what, text, version, at_ms: at }) {
  const isGap = what === "gap";
  const element = buildMarker({
    kind: what, at, title: isGap ? "Gap" : "", text: isGap ? text.replace(/^gap:\s*/i, "") : text,
    link: version ? { word: "Compare", href: `/relations/versions/${Number(version)}/` } : null,
  });
  return markerItem(id, [inc, seq, 3, event], element);
}

// Transactions that came too fast to be shown; they are in the store.
export function foldItem(incarnation, folded, fill) {
  number += 1;
  const id = `fold-${number}`;
  const text = folded.exact
    ? `${plural(folded.count, "transaction")} folded to keep up`
    : `${plural(folded.count, "transaction")} folded, filters not applied to them`;
  const element = buildMarker({
    kind: "fold", text, action: { word: "Show them", run: ask(() => fill(folded.from - 1, folded.to, id)) },
  });
  element.classList.add("fold");
  return markerItem(id, [incarnation, folded.to, 2, 0], element);
}

function ask(run) {
  return (button) => { button.textContent = "Asked …"; button.disabled = true; run(); };
}

// What was missed while this browser was away (or paused): filled, or offered.
export function gapItems(before, message, away, fill) {
  number += 1;
  const from = before ? [before.incarnation, before.commit_seq] : [0, 0];
  const why = away.paused ? `paused ${age(away.ms)}` : `browser was offline ${age(away.ms)}`;
  if (message.new_incarnation) {
    const element = buildMarker({
      kind: "gap", title: "Gap",
      text: `the slot began a new incarnation while the ${why}; rows below belong to the one before`,
    });
    return [markerItem(`gap-${number}`, [...from, 4, number], element)];
  }
  const missing = message.searched_to - message.after;
  const items = [];
  if (message.searched > 0) {
    const ids = message.rows.map((data) => data.id);
    const matched = ids.length === message.searched ? "" : `, ${ids.length} of them shown by the filters`;
    const element = buildMarker({
      kind: "gap", at: Date.now(), title: "Gap closed",
      text: `${why}; ${plural(message.searched, "transaction")} filled from the store${matched}`,
      action: ids.length ? { word: "Show them", run: () => highlight(ids) } : null,
    });
    items.push(markerItem(`gap-${number}`, [from[0], message.searched_to, 3, number], element));
  }
  if (missing > 0) {
    const id = `gap-${number}-rest`;
    const element = buildMarker({
      kind: "gap", at: Date.now(), title: "Gap",
      text: `${why}; ${plural(missing, "transaction")} more are in the store`,
      action: { word: "Show them", run: ask(() => fill(message.after, message.searched_to, id)) },
    });
    items.push(markerItem(id, [from[0], message.searched_to, 2, 0], element));
  }
  return items;
}

function highlight(ids) {
  let last = null;
  for (const id of ids) {
    const row = document.querySelector(`#rows > [data-id="${CSS.escape(id)}"]`);
    if (!row) continue;
    row.classList.remove("fresh", "filled");
    void row.offsetWidth;
    row.classList.add("filled");
    last = row;
  }
  last?.scrollIntoView({ block: "center" });
}

