// One transaction as a row, and markers between them.

import { el, icon } from "../ui/dom.js";
import { fillTables } from "./tables.js";
import { age, bytes, clock, delay } from "../ui/words.js";

// "Latency" of a transaction that was there before this page was.
export const EARLIER = "from store";
const MARKER_ICONS = { schema: "table", connected: "check", disconnected: "gap", problem: "health-look" };

function cell(className, text) {
  const made = el("span", className, text);
  made.setAttribute("role", "gridcell");
  return made;
}

function stateCell(state) {
  const made = cell("c-state");
  const shape = state.replace(" ", "-");
  const inner = el("span", `state state-${shape}`);
  const quiet = state === "committed" || state === "message";
  inner.append(icon(`state-${shape}`), el("span", quiet ? "visually-hidden" : "", state));
  made.append(inner);
  return made;
}

function actorCell(data) {
  const made = cell("c-actor");
  if (!data.actor) made.append(el("i", "unknown", "unknown"));
  else {
    made.append(el("span", "cut", data.actor));
    if (data.more_actors.length) {
      const more = el("span", "quiet", `+${data.more_actors.length}`);
      more.dataset.tip = data.more_actors.join(", ");
      more.append(el("span", "visually-hidden", ` more: ${more.dataset.tip}`));
      made.append(more);
    }
    const kind = { stamped: "fact", claimed: "claim" }[data.grade] ?? "unknown";
    if (data.grade) made.append(el("span", `chip chip-${kind}`, data.grade));
  }
  return made;
}

export const isOpen = (data) => ["receiving", "streaming", "prepared"].includes(data.state);
export const isLost = (data) => data.state === "aborted" || data.state === "rolled back";

export function timeOf(data) {
  return isLost(data) ? data.ended_ms ?? data.stored_ms : data.commit_ms ?? data.stored_ms;
}

// The row alone, to hold its place: 500 rows are kept, some thirty are seen.
export function bareRow(data) {
  const row = el("div", isLost(data) ? "row no-longer" : "row");
  row.setAttribute("role", "row");
  // A row without cells is not finished: said, so that nobody is read an empty one.
  row.setAttribute("aria-busy", "true");
  row.tabIndex = -1;
  row.dataset.id = data.id;
  return row;
}

export function buildRow(data) {
  return fillRow(bareRow(data), data, isOpen(data) ? "open" : "");
}

export function fillRow(row, data, screen) {
  if (row.firstChild) return row;
  row.removeAttribute("aria-busy");
  const tables = cell("c-tables");
  fillTables(tables, data);
  const at = timeOf(data);
  row.append(
    cell("c-time", isOpen(data) ? "" : at === null ? "unknown" : clock(at)),
    data.gid ? gidCell(data.gid) : cell("c-xid", data.xid === null ? "" : String(data.xid)),
    stateCell(data.state),
    tables,
    actorCell(data),
    cell("c-origin", data.origin ?? ""),
    cell("c-size num", bytes(data.bytes)),
    cell(screen === EARLIER ? "c-screen num earlier" : "c-screen num", screen),
  );
  return row;
}

// A long gid loses its beginning, never its end.
function gidCell(gid) {
  const made = cell("c-xid gid");
  made.dataset.tip = gid;
  made.append(el("bdi", "", gid));
  return made;
}

export const latencyWords = (latency) => (latency === null ? "clocks differ" : delay(latency));

// An open transaction's row is kept and changed in place.
export function updateOpen(row, data, grown) {
  fillTables(row.querySelector(".c-tables"), data, grown);
  row.querySelector(".c-size").textContent = bytes(data.bytes);
}

export function tickOpen(row, data, serverMs) {
  const since = data.prepared_ms ?? data.received_ms;
  row.querySelector(".c-time").textContent = `open ${age(serverMs - since)}`;
}

// The column has another width: what fits is another.
export function refitTables(row, data) {
  const tables = row.querySelector('.c-tables[data-fits="some"]');
  if (tables) fillTables(tables, data);
}

// A line in the order of things that is no transaction. action: {word, run}; link: {word, href}
export function buildMarker({ kind, at, title, text, action, link, code }) {
  const row = el("div", kind === "gap" ? "row marker marker-gap" : "row marker");
  row.setAttribute("role", "row");
  const words = cell("c-words");
  if (MARKER_ICONS[kind]) words.append(icon(MARKER_ICONS[kind], 14));
  const sentence = el("span", "cut");
  if (title) sentence.append(el("b", "", title), ": ");
  sentence.append(text);
  if (code) sentence.append(" ", el("code", "", code));
  words.append(sentence);
  row.append(cell("c-time", at ? clock(at) : ""), words);
  const end = cell("c-end");
  if (action) {
    const button = el("button", "btn btn-text", action.word);
    button.type = "button";
    button.addEventListener("click", () => action.run(button));
    end.append(button);
  }
  if (link) {
    const anchor = el("a", "", link.word);
    anchor.href = link.href;
    end.append(anchor);
  }
  row.append(end);
  return row;
}
