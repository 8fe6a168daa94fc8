// What is shown, as the address says it; links and forms of the toolbar follow it.

import { find } from "../ui/dom.js";
import { momentWords } from "./words.js";

const ORDER = ["slot", "range", "from", "to", "charts", "table"];

// An address without a range means the one that the page opened with.
export const words = () => {
  const given = new URLSearchParams(location.search);
  const opened = new URLSearchParams(find("lag").dataset.query);
  if (!given.has("slot")) return opened;
  if (!given.has("range")) given.set("range", opened.get("range"));
  return given;
};

const queryOf = (given) => {
  const ordered = new URLSearchParams();
  for (const name of ORDER) for (const value of given.getAll(name)) if (value) ordered.append(name, value);
  return ordered.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
};

// A new place in the browser's history; `state` says how it was come by.
export function go(changes, state = {}, { replace = false } = {}) {
  const given = words();
  for (const [name, value] of Object.entries(changes)) {
    if (value) given.set(name, value);
    else given.delete(name);
  }
  history[replace ? "replaceState" : "pushState"](state, "", `${location.pathname}?${queryOf(given)}`);
}

export const dataUrl = () => `${find("lag").dataset.data}?${queryOf(words())}`;

export function showAddress(answer) {
  const given = words();
  const { dataset } = find("lag");
  find("lag-csv").href = `${dataset.csv}?${queryOf(given)}`;
  const piece = given.has("from") || given.has("to");
  for (const link of document.querySelectorAll("[data-range]")) {
    link.setAttribute("aria-current", String(!piece && link.dataset.range === given.get("range")));
  }
  for (const input of document.querySelectorAll("#lag-toolbar input[data-word]")) {
    if (input !== document.activeElement) input.value = given.get(input.dataset.word) ?? "";
  }
  find("lag-window").classList.toggle("set", piece);
  find("lag-out").hidden = !piece;
  find("lag-hint").hidden = piece;
  if (!answer) return;
  const span = answer.until - answer.since;
  const until = answer.live ? "now, live" : momentWords(answer.until, span);
  find("lag-window-words").textContent = `${momentWords(answer.since, span)} to ${until}`;
  const link = find("lag-transactions");
  link.hidden = !piece || !dataset.own;
  const moment = (ms) => new Date(ms).toISOString();
  const query = new URLSearchParams({ slot: dataset.own, since: moment(answer.since), until: moment(answer.until) });
  link.href = `${dataset.transactions}?${query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":")}`;
}
