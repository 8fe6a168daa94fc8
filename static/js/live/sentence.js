// The status sentence, the counters, the notice with its remedy, and the empty state.
// Numbers change in place; the live region speaks only when the state itself changes.

import { announce } from "../shell.js";
import { el, find, setIcon } from "./dom.js";
import { age, count, delay, plural, rate } from "./words.js";

const STALE_MS = 15000;
const narrow = matchMedia("(max-width: 639px)");
let said = "";

// One state of the page: {key, level, title, rest}
function judge({ stream, band, clock, connected, ended, awayMs }) {
  const { slot } = stream;
  if (ended === "signed-out") return state("signed-out", "now", "Signed out.", "Your session ended. Next: sign in again.");
  if (ended === "no-slot") return state("no-slot", "now", "Slot removed.", "replview no longer knows this slot. Next: choose another above.");
  if (!connected) {
    if (!stream.loaded) return state("connecting", "unknown", "Connecting.", "The last transactions are on their way.");
    return state("lost", "look", "Connection lost.", `No word from replview for ${age(awayMs)}. Trying again; what is missed will be filled from the store.`);
  }
  if (!slot) return state("connecting", "unknown", "Connecting.", "The last transactions are on their way.");
  if (slot.problem) return state(`problem-${slot.problem}`, slot.state === "failed" ? "now" : "look", problemTitle(slot), problemRest(slot, clock));
  if (slot.state === "stopped") return state("stopped", "idle", "Stopped.", slot.desired === "stopped" ? "This slot is not read, as you wished; its WAL stays on the source." : "No receiver reads this slot yet.");
  if (slot.state === "starting") return state("starting", "unknown", "Starting.", "The receiver is connecting to the source.");
  if (slot.state === "reconnecting") return state("reconnecting", "look", "Reconnecting.", "The receiver lost its connection to the source and tries again.");
  if (slot.heartbeat_ms !== null && clock.known && clock.server() - slot.heartbeat_ms > STALE_MS) {
    return state("silent", "look", "No sign of the receiver.", `Its last was ${age(clock.server() - slot.heartbeat_ms)} ago. Another worker takes over by itself.`);
  }
  if (stream.paused) return state("paused", "idle", "Paused.", `${plural(stream.held, "new transaction")} since. Next: resume to fill them in.`);
  return state("live", "ok", "Live.", liveRest(stream, band, clock));
}

const state = (key, level, title, rest) => ({ key, level, title, rest });

function problemTitle(slot) {
  return slot.state === "failed" ? "Cannot read the slot." : "The receiver has a problem.";
}

function problemRest(slot, clock) {
  const retry = slot.retry_ms && clock.known ? ` Next try in ${age(slot.retry_ms - clock.server())}.` : "";
  return `${slot.cause.replace(/\.?$/, ".")}${retry}`;
}

function liveRest(stream, band, clock) {
  const tables = stream.slot.tables ? ` from ${plural(stream.slot.tables, "table")}` : "";
  const median = clock.median;
  if (narrow.matches) {
    const reach = median === null ? "" : ` · ${delay(median)} to screen`;
    return `${rate(stream.rate)}${reach} · ${count(stream.folded)} folded`;
  }
  const reach = median === null ? "" : `; commits reach this screen after ${delay(median)}`;
  const open = band.size === 0 ? "" : ` ${band.size === 1 ? "One is" : `${words(band.size)} are`} still open.`;
  if (!stream.rate) return `No commits in the last seconds${tables}.${open}`;
  const rounded = Math.round(stream.rate);
  const many = rounded < 1 ? "Less than one transaction" : plural(rounded, "transaction");
  return `${many} a second${tables}${reach}.${open}`;
}

const words = (number) => ["No", "One", "Two", "Three", "Four", "Five", "Six"][number] ?? count(number);

export function showSentence(page) {
  const { key, level, title, rest } = judge(page);
  const svg = find("sentence-icon");
  svg.setAttribute("class", `icon health-${level}`);
  setIcon(svg, `health-${level}`);
  put("sentence-title", title);
  put("sentence-rest", rest);
  if (said && said !== key) announce(`${title} ${rest}`);
  if (said !== key) showNotice(key, page);
  said = key;
}

export function showCounters({ stream, clock }) {
  put("rate", rate(stream.rate));
  put("p50", clock.median === null ? "no commit yet" : delay(clock.median));
  put("folded", count(stream.folded));
  put("pause-word", stream.paused ? `Resume${stream.held ? ` · ${count(stream.held)} new` : ""}` : "Pause");
}

// The remedy stands below the sentence, with a button that copies it.
function showNotice(key, { stream }) {
  const notice = find("notice");
  notice.replaceChildren();
  if (key === "signed-out") {
    const link = el("a", "btn btn-primary", "Sign in again");
    link.href = `${find("live").dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`;
    notice.append(link);
  } else if (key.startsWith("problem-") && stream.slot.remedy) {
    const box = el("div", "sql");
    const button = el("button", "btn btn-small btn-quiet", "Copy");
    button.type = "button";
    button.dataset.copy = stream.slot.remedy;
    box.append(el("pre", "", stream.slot.remedy), button);
    notice.append(el("p", "second", "What mends it:"), box);
  }
  notice.hidden = !notice.childElementCount;
}

export function showEmpty(page) {
  const { stream, list, band, filters, connected } = page;
  const empty = stream.loaded && connected && !list.size;
  find("empty").hidden = !empty;
  const oldest = list.oldestSeq();
  const more = stream.loaded && (list.dropped || stream.searchedTo > 1 || (oldest?.seq > 1 && stream.searchedTo !== 0));
  find("list-end").hidden = !more;
  put("older", list.size ? "Load older" : filters.any ? "Search further back" : "Load the last ones");
  if (!empty) return;
  const { slot } = stream;
  const stored = slot?.stored > 0 || more;
  put("empty-title", filters.any ? "Nothing matches" : stored ? "Cleared" : "No commits yet");
  const checked = slot?.heartbeat_ms ? `, checked ${age(page.clock.server() - slot.heartbeat_ms)} ago` : "";
  const at = slot?.lsn ? `Connected at ${slot.lsn}${checked}.` : "No position is known yet.";
  const tables = slot?.tables ? ` on ${plural(slot.tables, "table")}` : " on the published tables";
  put("empty-why", filters.any
    ? "No transaction looked at so far passes the filters. New ones that do appear here."
    : stored ? "New transactions appear here as they commit."
      : `${at} No commits${tables}.${band.size ? " What is still open stands above." : ""}`);
  find("empty-action").hidden = !filters.any;
  put("empty-action", "Clear the filters");
}

function put(id, text) {
  const place = find(id);
  if (place.textContent !== text) place.textContent = text;
}
