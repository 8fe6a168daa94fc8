// The status sentence, the counters and the notice with its remedy.
// Numbers change in place; the live region speaks only when the state itself changes.

import { announce } from "../ui/shell.js";
import { el, find, setIcon } from "../ui/dom.js";
import { age, count, delay, plural, rate } from "../ui/words.js";

const STALE_MS = 15000;
const narrow = matchMedia("(max-width: 639px)");
let announced = "";

// One state of the page: {key, level, title, rest}
function judge({ stream, band, clock, filters, connected, ended, awayMs }) {
  const { slot } = stream;
  if (ended === "signed-out") return state("signed-out", "now", "Signed out.", "Your session ended. Next: sign in again.");
  if (ended === "no-slot") return state("no-slot", "now", "Slot removed.", "replview no longer knows this slot. Next: choose another above.");
  if (!connected) {
    if (!stream.loaded) return state("connecting", "unknown", "Connecting.", "Loading the last transactions.");
    return state("lost", "look", "Connection lost.", `No answer from replview for ${age(awayMs)}. Reconnecting; missed transactions are loaded from the store.`);
  }
  if (!slot) return state("connecting", "unknown", "Connecting.", "Loading the last transactions.");
  if (slot.problem) return state(`problem-${slot.problem}`, slot.state === "failed" ? "now" : "look", problemTitle(slot), problemRest(slot, clock));
  if (slot.state === "stopped") return state("stopped", "idle", "Stopped.", slot.desired === "stopped" ? "This slot is stopped; the source retains its WAL." : "No receiver reads this slot yet.");
  if (slot.state === "starting") return state("starting", "unknown", "Starting.", "The receiver is connecting to the source.");
  if (slot.state === "reconnecting") return state("reconnecting", "look", "Reconnecting.", "The receiver lost its connection to the source and tries again.");
  if (slot.heartbeat_ms !== null && clock.known && clock.server() - slot.heartbeat_ms > STALE_MS) {
    return state("silent", "look", "No heartbeat from the receiver.", `Its last was ${age(clock.server() - slot.heartbeat_ms)} ago. Another worker takes over by itself.`);
  }
  const health = bad(headerHealth());
  if (stream.paused) return state("paused", health?.level ?? "idle", "Paused.", `${plural(stream.since, "new transaction")} since. Next: resume to fill them in.`);
  if (health) return state(`health-${health.title}`, health.level, health.title, healthRest(health, stream));
  if (filters.onlyOpen) return state("live", "ok", "Live.", openRest(band, filters));
  return state("live", "ok", "Live.", liveRest(stream, band, clock));
}

// The slot's health as the header tells it: what is wrong there is no "Live" with a tick here.
const headerHealth = () => document.querySelector("#head-health [data-health]")?.dataset ?? {};

const bad = (health) => (["now", "look"].includes(health.health)
  ? { level: health.health, title: health.title, cause: health.cause, next: health.next } : null);

function healthRest({ cause, next }, stream) {
  const rest = [cause, next && `Next: ${next}`].filter(Boolean).join(" ");
  return `${rest}${stream.rate ? ` ${rate(stream.rate)} go on coming.` : ""}`;
}

function openRest(band, filters) {
  const kind = filters.values.states === "open" ? "open" : filters.values.states.replace(",", " or ");
  const many = band.size === 1 ? "One transaction is" : `${words(band.size)} transactions are`;
  return `${many} ${kind}; what has ended is filtered out.`;
}

const state = (key, level, title, rest) => ({ key, level, title, rest });

function problemTitle(slot) {
  return slot.state === "failed" ? "Cannot read the slot." : "The receiver has a problem.";
}

function problemRest(slot, clock) {
  const retry = slot.retry_ms && clock.known ? ` Next attempt in ${age(slot.retry_ms - clock.server())}.` : "";
  return `${slot.cause.replace(/\.?$/, ".")}${retry}`;
}

function liveRest(stream, band, clock) {
  const tables = publishedTables(stream.slot, " from ");
  const median = clock.median;
  if (narrow.matches) {
    const reach = median === null ? "" : ` · ${delay(median)} latency`;
    return `${rate(stream.rate)}${reach} · ${count(stream.folded)} folded`;
  }
  const reach = median === null ? "" : `; commits reach this screen after ${delay(median)}`;
  const open = band.size === 0 ? "" : ` ${band.size === 1 ? "One is" : `${words(band.size)} are`} still open.`;
  if (stream.rate === null) return `Counting the commits${tables}; the rate is known in a few seconds.${open}`;
  if (!stream.rate) return `No commits in the last seconds${tables}.${open}`;
  const rounded = Math.round(stream.rate);
  const many = rounded < 1 ? "Less than one transaction" : plural(rounded, "transaction");
  return `${many} a second${tables}${reach}.${open}`;
}

// " from 7 published tables"; nothing where their number is not known.
export function publishedTables(slot, before, otherwise = "") {
  const number = slot?.published_tables ?? null;
  return number === null ? otherwise : `${before}${plural(number, "published table")}`;
}

const words = (number) => ["No", "One", "Two", "Three", "Four", "Five", "Six"][number] ?? count(number);

export function showSentence(page) {
  const { key, level, title, rest } = judge(page);
  const svg = find("sentence-icon");
  svg.setAttribute("class", `icon health-${level}`);
  setIcon(svg, `health-${level}`);
  put("sentence-title", title);
  put("sentence-rest", rest);
  if (announced && announced !== key) announce(`${title} ${rest}`);
  if (announced !== key) showNotice(key, page);
  announced = key;
}

export function showCounters({ stream, clock }) {
  put("rate", rate(stream.rate));
  put("p50", clock.median === null ? "no commit yet" : delay(clock.median));
  put("folded", count(stream.folded));
  put("pause-word", stream.paused ? `Resume${stream.since ? ` · ${count(stream.since)} new` : ""}` : "Pause");
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

export function put(id, text) {
  const place = find(id);
  if (place.textContent !== text) place.textContent = text;
}
