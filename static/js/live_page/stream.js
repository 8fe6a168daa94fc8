// What the socket says, put on the page: coalesced, at most ten times a second, and acknowledged
// only once it is there, so that the server never runs ahead of what this browser can show.

import { Held } from "./held.js";
import { rowItem } from "./list.js";
import { EARLIER, isLost, latencyWords, timeOf } from "./row.js";
import { eventItem, foldItem, gapItems } from "./markers.js";

const FLUSH_MS = 100;
// A few rows cost little: they need not wait as long.
const FEW_ROWS = 8;
const FLUSH_FEW_MS = 50;
// Where drawing is slow (no graphics card, a busy machine) it is done less often: scrolling and
// typing keep two thirds of the time, and the server folds what is not asked for.
const FLUSH_SLOW_MS = 400;
const SHARE = 3;

export class Stream {
  // page: {list, band, clock, filters, drawer, hold, send(), changed()}
  constructor(page) {
    this.page = page;
    this.cursor = null;
    this.waiting = [];
    this.flushedAt = 0;
    this.scheduled = false;
    this.cost = 0;
    this.latencies = new Map();
    this.folded = 0;
    this.held = 0;
    this.rate = null;
    this.slot = null;
    this.loaded = false;
    this.searchedTo = null;
    this.paused = false;
    this.back = new Held(page, (id) => this.latencies.delete(id));
    page.list.onDrop = (item) => this.latencies.delete(item.id);
  }

  // For the server: from where to go on.
  start({ fresh = false } = {}) {
    if (fresh) this.cursor = null;
    this.page.send({
      type: "start", acks: true, cursor: this.cursor, filters: this.page.filters.values,
    });
    if (this.paused && this.cursor) this.page.send({ type: "pause" });
  }

  receive(message, away) {
    if (message.type === "history") this.showHistory(message);
    else if (message.type === "caught_up") this.catchUp(message, away);
    else if (message.type === "older") this.showOlder(message);
    else if (message.type === "filled") this.showFilled(message);
    else if (message.type === "batch") { this.waiting.push(message); this.schedule(); }
  }

  // Filters changed, or the page opened: everything is drawn anew.
  showHistory(message) {
    this.waiting = [];
    this.back.forget();
    this.page.list.clear();
    this.latencies.clear();
    this.folded = 0;
    this.cursor = message.cursor;
    this.loaded = true;
    this.putStored(message);
    this.searchedTo = message.searched_to;
    if (this.paused) this.page.send({ type: "pause" });
    this.page.changed();
  }

  catchUp(message, away) {
    const { list } = this.page;
    this.back.release();
    if (message.new_incarnation) {
      list.add(gapItems(this.cursor, message, away, null));
      this.cursor = message.cursor;
      return;
    }
    // What the socket lost on its way may be here already: the list knows its own.
    this.putStored(message, { room: true });
    if (message.missed) {
      const gaps = gapItems(this.cursor, message, away, (...range) => this.fill(...range));
      this.page.hold.steady(() => list.add(gaps));
    }
    this.cursor = message.cursor;
    this.page.changed();
  }

  showOlder(message) {
    this.putStored(message, { room: true });
    this.searchedTo = message.searched_to;
    this.page.changed();
  }

  showFilled(message) {
    const { list } = this.page;
    const { place } = list.get(message.id) ?? {};
    list.remove(message.id);
    this.putStored(message, { room: true, fresh: true });
    // Newest first: what is still folded is older than what came.
    if (place && message.searched_to > message.after) {
      const rest = { from: message.after + 1, to: message.searched_to, exact: false };
      rest.count = rest.to - rest.from + 1;
      list.add([foldItem(place[0], rest, (...range) => this.fill(...range))]);
    }
    this.page.changed();
  }

  putStored(message, options = {}) {
    const { list, filters } = this.page;
    const items = message.rows.map((data) => {
      filters.learn(data);
      return rowItem(data, EARLIER);
    });
    items.push(...message.markers.map((marker) => eventItem(marker)));
    this.page.hold.steady(() => list.add(items, options));
  }

  fill(after, upTo, id) {
    this.page.send({ type: "fill", incarnation: this.cursor.incarnation, after, up_to: upTo, id });
  }

  older() {
    const oldest = this.page.list.oldestSeq();
    const before = this.page.list.dropped && oldest ? oldest.seq : this.searchedTo || oldest?.seq;
    if (!before || !this.cursor) return false;
    this.page.send({ type: "older", incarnation: this.cursor.incarnation, before });
    return true;
  }

  // A tab in the background has no frames: its batches wait unacknowledged, and the server folds.
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const few = (this.waiting[0].rows?.length ?? 0) <= FEW_ROWS;
    const pace = few ? FLUSH_FEW_MS : Math.min(FLUSH_SLOW_MS, Math.max(FLUSH_MS, SHARE * this.cost));
    const wait = Math.max(0, pace - (performance.now() - this.flushedAt));
    setTimeout(() => requestAnimationFrame(() => this.flush()), wait > 4 ? wait - 4 : 0);
  }

  flush() {
    this.scheduled = false;
    this.flushedAt = performance.now();
    const batches = this.waiting;
    this.waiting = [];
    if (!batches.length) return;
    const items = [];
    for (const batch of batches) this.take(batch, items);
    for (const item of items) this.measure(item);
    this.back.put(items);
    if (!this.holding) this.back.release();
    this.page.send({ type: "ack", n: batches.at(-1).n });
    this.page.changed();
    if (items.length > FEW_ROWS) this.weigh();
  }

  // What came just before a pause waits with it.
  get holding() { return this.paused || this.page.hold.on; }

  // Nobody points any longer.
  release() {
    if (!this.holding) this.back.release();
  }

  // How many have come since the pause, or wait for another reason.
  get since() { return this.held + this.back.size; }

  // What a flush costs until its frame is painted: the first task after that frame.
  weigh() {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      this.cost = 0.7 * this.cost + 0.3 * (performance.now() - this.flushedAt);
      port1.close();
    };
    port2.postMessage(null);
  }

  take(batch, items) {
    const { band, drawer, filters } = this.page;
    if (batch.slot) { this.slot = batch.slot; this.slotAt = performance.now(); }
    if (batch.rate !== undefined) this.rate = batch.rate;
    if (batch.held !== undefined) this.held = batch.held;
    if (batch.open) {
      this.back.open = batch.open;
      for (const id of band.update(batch.open)) drawer.refresh(id);
    }
    for (const data of batch.rows ?? []) {
      filters.learn(data);
      if (band.get(data.id)) drawer.refresh(data.id);
      items.push(rowItem(data));
    }
    for (const marker of batch.markers ?? []) items.push(eventItem(marker));
    if (batch.folded) {
      this.folded += batch.folded.count;
      const incarnation = batch.cursor?.incarnation ?? this.cursor?.incarnation ?? 0;
      items.push(foldItem(incarnation, batch.folded, (...range) => this.fill(...range)));
    }
    if (batch.cursor) this.cursor = batch.cursor;
  }

  // Commit to screen: to the moment it is put into the page, or held because somebody points.
  measure(item) {
    const { data } = item;
    if (!data || this.page.list.has(item.id)) return;
    const at = timeOf(data);
    const latency = at === null ? null : this.page.clock.since(at);
    item.screen = at === null ? "unknown" : latencyWords(latency);
    if (latency === null) return;
    this.latencies.set(data.id, latency);
    if (!isLost(data)) this.page.clock.note(latency);
  }

  latency(id) { return this.latencies.get(id) ?? null; }

  pause() {
    this.paused = true;
    this.held = 0;
    this.pausedAt = performance.now();
    this.page.hold.show(0);
    this.page.send({ type: "pause" });
  }

  resume() {
    this.paused = false;
    this.back.release();
    this.start();
  }

  clear() {
    this.back.forget();
    this.page.list.clear();
    this.latencies.clear();
    this.folded = 0;
    this.searchedTo = this.cursor ? this.cursor.commit_seq + 1 : null;
  }
}
