// The list of ended transactions and markers: newest first, bounded, in the order of history.

import { bareRow, fillRow } from "./row.js";

const FILL_LATER_MS = 300;
// Rows drawn at once; more do not fit on a screen.
const VISIBLE = 40;
const idle = globalThis.requestIdleCallback
  ?? ((run) => setTimeout(() => { const end = performance.now() + 8; run({ timeRemaining: () => end - performance.now() }); }, 30));

const LIMIT = 500;
const LIMIT_OLDER = 3000;
// Rows that come alone are tinted; a flood of tints would say nothing.
const FRESH_AT_ONCE = 8;
const ALONE_MS = 150;

// {place: [incarnation, commit_seq, rank, tie], id, element, data, screen}; data is null for a
// marker, screen is what its last column says.
function compare(a, b) {
  for (let at = 0; at < 4; at += 1) {
    if (a.place[at] !== b.place[at]) return a.place[at] < b.place[at] ? -1 : 1;
  }
  return 0;
}

// A transaction without a place of its own stands right after the commit before it.
export function rowItem(data, screen = "") {
  return {
    screen,
    id: data.id,
    place: [data.inc ?? 0, data.seq ?? 0, data.placed ? 0 : 1, Number(data.stored_ms ?? 0)],
    element: null,
    data,
  };
}

export function markerItem(id, place, element) {
  return { id, place: [place[0] ?? 0, place[1] ?? 0, place[2] ?? 2, place[3] ?? 0], element, data: null };
}

export class List {
  constructor(holder) {
    this.holder = holder;
    this.items = []; // newest first
    this.byId = new Map();
    this.limit = LIMIT;
    this.dropped = false;
    this.onDrop = () => {};
  }

  get newest() { return this.items[0] ?? null; }
  get oldest() { return this.items.at(-1) ?? null; }
  get size() { return this.items.length; }

  has(id) { return this.byId.has(id); }
  get(id) { return this.byId.get(id) ?? null; }

  // Adds items in any order; returns those that were new, newest first.
  add(items, { fresh = false, room = false } = {}) {
    const added = items.filter((item) => !this.byId.has(item.id)).sort(compare).reverse();
    if (!added.length) return added;
    if (room) this.limit = Math.min(LIMIT_OLDER, Math.max(this.limit, this.size + added.length));
    // Of a flood only what stays is built.
    const keep = added.length > this.limit ? added.slice(0, this.limit) : added;
    const now = performance.now();
    const alone = keep.length <= FRESH_AT_ONCE && now - (this.addedAt ?? 0) > ALONE_MS;
    this.addedAt = now;
    for (const item of keep) {
      item.element ??= bareRow(item.data);
      this.byId.set(item.id, item);
      if (fresh && alone) item.element.classList.add("fresh");
    }
    keep.slice(0, VISIBLE).forEach((item) => this.fill(item));
    this.insert(keep);
    this.trim();
    if (keep.length > VISIBLE) this.fillLater();
    return added;
  }

  fill(item) {
    if (item.data) fillRow(item.element, item.data, item.screen);
  }

  // The rest is drawn when there is time; in a flood most are gone before anybody sees them.
  fillLater() {
    clearTimeout(this.filling);
    this.filling = setTimeout(() => idle((deadline) => {
      for (const item of this.items) {
        if (deadline.timeRemaining() < 2) { this.fillLater(); return; }
        this.fill(item);
      }
    }), FILL_LATER_MS);
  }

  // Scrolled to: what is seen is drawn at once.
  fillSeen(top, height) {
    const first = Math.max(0, Math.floor((top - 400) / 28));
    for (const item of this.items.slice(first, first + Math.ceil((height + 800) / 28))) this.fill(item);
  }

  insert(added) {
    if (!this.size || compare(added.at(-1), this.items[0]) > 0) {
      this.put(added, 0);
    } else if (compare(added[0], this.oldest) < 0) {
      this.put(added, this.size);
    } else {
      for (const item of added) this.put([item], this.placeOf(item));
    }
  }

  // The position of the first item that is older.
  placeOf(item) {
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.items[middle], item) > 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  put(added, at) {
    const pieces = document.createDocumentFragment();
    for (const item of added) pieces.append(item.element);
    this.holder.insertBefore(pieces, this.items[at]?.element ?? null);
    if (at === 0) this.items = added.concat(this.items);
    else this.items.splice(at, 0, ...added);
  }

  trim() {
    while (this.size > this.limit) {
      const item = this.items.pop();
      this.forget(item);
      this.dropped = true;
    }
  }

  forget(item) {
    this.byId.delete(item.id);
    this.onDrop(item);
    item.element.remove();
  }

  remove(id) {
    const item = this.byId.get(id);
    if (!item) return;
    this.items.splice(this.items.indexOf(item), 1);
    this.forget(item);
  }

  clear() {
    for (const item of this.items) item.element.remove();
    this.items = [];
    this.byId.clear();
    this.limit = LIMIT;
    this.dropped = false;
  }

  // The next transaction below (1) or above (-1) one of them, over markers.
  neighbour(id, step) {
    let at = this.items.indexOf(this.byId.get(id));
    if (at < 0) return null;
    do at += step; while (this.items[at] && !this.items[at].data);
    return this.items[at] ?? null;
  }

  first() { return this.items.find((item) => item.data) ?? null; }

  // The oldest place of history shown, from where older ones are asked for.
  oldestSeq() {
    for (let at = this.size - 1; at >= 0; at -= 1) {
      if (this.items[at].data?.placed) return this.items[at].data;
    }
    return null;
  }
}
