// The shaded band of open transactions: they have no place in commit order, so they stand on top,
// grow there, and leave for the list when they end.

import { buildRow, tickOpen, updateOpen } from "./row.js";

const GROWTH_MS = 3000;

export class Band {
  constructor(holder, clock) {
    this.holder = holder;
    this.clock = clock;
    this.rows = new Map(); // id → {data, element, seen: [{at, changes}]}
    setInterval(() => this.tick(), 1000);
  }

  get size() { return this.rows.size; }
  get(id) { return this.rows.get(id) ?? null; }
  ids() { return [...this.rows.keys()]; }

  // What can change in place: growth and state. Returns the ids that changed state or are gone.
  update(list) {
    const present = new Set(list.map((data) => data.id));
    const changed = this.ids().filter((id) => !present.has(id));
    for (const data of list) {
      const known = this.rows.get(data.id);
      if (!known) continue;
      if (known.data.state === data.state) this.grow(known, data);
      else { this.enter(data, known); changed.push(data.id); }
    }
    return changed;
  }

  // All open ones, oldest first: who is new enters, who is gone leaves.
  show(list) {
    const present = new Set(list.map((data) => data.id));
    for (const id of this.ids()) if (!present.has(id)) this.leave(id);
    for (const data of list) if (!this.rows.has(data.id)) this.enter(data);
    this.tick();
  }

  enter(data, known) {
    const element = buildRow(data);
    element.classList.add("open-row", "fresh");
    if (known) {
      element.ariaSelected = known.element.ariaSelected;
      element.tabIndex = known.element.tabIndex;
      const focused = known.element === document.activeElement;
      known.element.replaceWith(element);
      if (focused) element.focus({ preventScroll: true });
    } else this.holder.append(element);
    this.rows.set(data.id, { data, element, seen: [{ at: performance.now(), changes: data.changes }] });
  }

  grow(known, data) {
    const now = performance.now();
    const grew = data.changes !== known.data.changes;
    known.data = data;
    known.seen.push({ at: now, changes: data.changes });
    while (known.seen.length > 2 && now - known.seen[0].at > GROWTH_MS) known.seen.shift();
    const first = known.seen[0];
    const seconds = (now - first.at) / 1000;
    const rate = seconds > 0.4 ? Math.max(0, data.changes - first.changes) / seconds : 0;
    if (grew || known.rate !== rate) updateOpen(known.element, data, rate);
    known.rate = rate;
  }

  leave(id) {
    this.rows.get(id)?.element.remove();
    this.rows.delete(id);
  }

  tick() {
    const now = this.clock.server();
    for (const { element, data } of this.rows.values()) tickOpen(element, data, now);
  }

  clear() { for (const id of this.ids()) this.leave(id); }
}
