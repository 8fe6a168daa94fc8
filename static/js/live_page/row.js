// One transaction as a row, whose cells the server renders, and markers between them.

import { el, icon } from "../ui/dom.js";
import { fitTables, showGrowth } from "./tables.js";
import { age, clock, delay } from "../ui/words.js";

// "Latency" of a transaction that was there before this page was.
export const EARLIER = "from store";
const MARKER_ICONS = { schema: "table", connected: "check", disconnected: "gap", problem: "health-look" };

function cell(className, text) {
  const made = el("span", className, text);
  made.setAttribute("role", "gridcell");
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
  putCells(row, data);
  const at = timeOf(data);
  row.querySelector(".col-time").textContent = isOpen(data) ? "" : at === null ? "unknown" : clock(at);
  showLatency(row, screen);
  fitTables(row.querySelector(".col-tables"));
  return row;
}

// The server has escaped them; a template's content is inert until it is in the page.
const parsed = document.createElement("template");

function putCells(row, data) {
  parsed.innerHTML = data.cells;
  row.replaceChildren(parsed.content);
}

function showLatency(row, screen) {
  const cell = row.querySelector(".col-latency");
  cell.textContent = screen;
  cell.classList.toggle("earlier", screen === EARLIER);
}

export const latencyWords = (latency) => (latency === null ? "clocks differ" : delay(latency));

// An open transaction's row is kept, with what only the browser knows of it.
export function updateOpen(row, data, grown) {
  const time = row.querySelector(".col-time").textContent;
  putCells(row, data);
  row.querySelector(".col-time").textContent = time;
  showLatency(row, "open");
  const tables = row.querySelector(".col-tables");
  showGrowth(tables, grown);
  fitTables(tables);
}

export function tickOpen(row, data, serverMs) {
  const since = data.prepared_ms ?? data.received_ms;
  row.querySelector(".col-time").textContent = `open ${age(serverMs - since)}`;
}

// The column has another width: what fits is another.
export function refitTables(row) {
  const tables = row.querySelector('.col-tables[data-fits="some"]');
  if (tables) fitTables(tables);
}

// A line in the order of things that is no transaction. action: {word, run}; link: {word, href}
export function buildMarker({ kind, at, title, text, action, link, code }) {
  const row = el("div", kind === "gap" ? "row marker marker-gap" : "row marker");
  row.setAttribute("role", "row");
  const words = cell("col-words");
  if (MARKER_ICONS[kind]) words.append(icon(MARKER_ICONS[kind], 14));
  const sentence = el("span", "cut");
  if (title) sentence.append(el("b", "", title), ": ");
  sentence.append(text);
  if (code) sentence.append(" ", el("code", "", code));
  words.append(sentence);
  row.append(cell("col-time", at ? clock(at) : ""), words);
  const end = cell("col-end");
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
