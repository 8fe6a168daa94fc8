// The live page: puts its parts together.

import { Band } from "./band.js";
import { Clock } from "../ui/clock.js";
import { Connection } from "../ui/connection.js";
import { find, setIcon } from "../ui/dom.js";
import { copyLink } from "../ui/changes/links.js";
import { Drawer } from "./drawer.js";
import { showEmpty } from "./empty.js";
import { Filters } from "./filters.js";
import { Hold } from "./hold.js";
import { List } from "./list.js";
import { refitTables, timeOf } from "./row.js";
import { Selection } from "./selection.js";
import { showCounters, showSentence } from "./sentence.js";
import { Stream } from "./stream.js";
import { measureFonts, setRoom } from "./tables.js";
import { startTestMessage } from "./test-message.js";
import { utc } from "../ui/words.js";

const page = {
  connected: false, ended: null, lostAt: 0,
  get awayMs() { return performance.now() - this.lostAt; },
  send: (message) => connection.send(message),
  changed: () => drawSoon(),
};
page.clock = new Clock();
page.list = new List(find("rows"));
page.band = new Band(find("band"), page.clock);
page.filters = new Filters(() => page.send({ type: "filters", filters: page.filters.values }));
page.drawer = new Drawer({
  closed: () => page.selection.returnFocus(),
  step: (by) => page.selection.move(by),
  latency: (id) => page.stream.latency(id),
});
page.hold = new Hold(() => page.stream.release());
page.stream = new Stream(page);
page.selection = new Selection(page.list, page.band, {
  open: (id) => {
    page.drawer.open(id);
    page.selection.element()?.scrollIntoView({ block: "nearest" });
  },
  close: () => page.drawer.close(),
  pause: () => togglePause(),
  newest: () => page.hold.toTop(),
  isDrawerOpen: () => page.drawer.isOpen,
});

let offlineMs = 0;
const connection = new Connection(find("live").dataset.socket, page.clock, {
  open(awayMs) {
    page.connected = true;
    offlineMs = awayMs ?? 0;
    page.stream.start();
    draw();
  },
  message(message) {
    const { stream } = page;
    const resumed = message.type === "caught_up" && resumedAfter !== null;
    stream.receive(message, { paused: resumed, ms: resumed ? resumedAfter : offlineMs });
    if (message.type === "caught_up") resumedAfter = null;
  },
  lost() {
    if (page.connected || !page.lostAt) page.lostAt = performance.now();
    page.connected = false;
    draw();
  },
  ended(reason) {
    page.connected = false;
    page.ended = reason;
    draw();
  },
});

// Pausing is part of the address too.
let resumedAfter = null;
function togglePause() {
  const { stream } = page;
  if (stream.paused) {
    resumedAfter = performance.now() - stream.pausedAt;
    stream.resume();
  } else stream.pause();
  showPaused();
}

function showPaused() {
  const { paused } = page.stream;
  find("pause").setAttribute("aria-pressed", String(paused));
  setIcon(find("pause"), paused ? "play" : "pause");
  Filters.write({ paused: paused ? "1" : "" });
  draw();
}

let drawnAt = 0;
let drawing = 0;
function draw() {
  clearTimeout(drawing);
  drawing = 0;
  drawnAt = performance.now();
  if (page.stream.loaded || page.ended) find("loading")?.remove();
  showSentence(page);
  showCounters(page);
  showEmpty(page);
  page.selection.mark();
}

// Numbers that move all the time are read twice a second.
function drawSoon() {
  // The keys reach the rows from the first moment on.
  page.selection.mark();
  if (performance.now() - drawnAt > 500) draw();
  else if (!drawing) drawing = setTimeout(draw, 500 - (performance.now() - drawnAt));
}

find("pause").addEventListener("click", togglePause);
find("clear").addEventListener("click", () => { page.stream.clear(); draw(); });
startTestMessage();
find("empty-action").addEventListener("click", () => page.filters.reset());
find("older").addEventListener("click", () => page.stream.older());
find("sentence").querySelector("[data-copy-link]").addEventListener("click", () => copyLink(location.href));

// The tables' column is as wide as its head; on a phone, where there is none, the row less its edges.
measureFonts(find("grid"));
const tablesHead = find("head").querySelector(".col-tables");
const measureRoom = () => {
  const width = tablesHead.clientWidth || find("live").clientWidth - 46 - 58;
  if (!setRoom(width - 12)) return;
  for (const { element, data } of [...page.list.items, ...page.band.rows.values()]) {
    if (data) refitTables(element);
  }
};
measureRoom();
new ResizeObserver(measureRoom).observe(find("live"));

// The other form of a time: UTC, made only when somebody asks.
find("grid").addEventListener("pointerover", (event) => {
  const time = event.target.closest(".col-time");
  const row = time?.closest("[data-id]");
  if (!row || time.dataset.tip) return;
  const data = page.list.get(row.dataset.id)?.data;
  const at = data && timeOf(data);
  if (at) time.dataset.tip = utc(at);
}, true);

find("live").addEventListener("scroll", () => {
  page.list.fillSeen(find("live").scrollTop - find("rows").offsetTop, find("live").clientHeight);
}, { passive: true });

setInterval(() => { if (!document.hidden) draw(); }, 1000);

const query = new URLSearchParams(location.search);
if (query.get("paused")) { page.stream.paused = true; page.stream.pausedAt = performance.now(); showPaused(); }
if (query.get("tx")) { page.selection.select(query.get("tx")); page.drawer.open(query.get("tx")); }
Filters.write({ slot: find("live").dataset.slot });
