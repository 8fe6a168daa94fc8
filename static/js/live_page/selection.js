// Which row is selected, and moving it with the keys: one row takes part in the tab order.

import { find } from "../ui/dom.js";

export class Selection {
  // on: {open(id), close(), pause(), newest(), isDrawerOpen()}
  constructor(list, band, on) {
    Object.assign(this, { list, band, on, id: null });
    find("grid").addEventListener("click", (event) => this.clicked(event));
    find("grid").addEventListener("focusin", (event) => {
      const row = event.target.closest("[data-id]");
      if (row && event.target === row && row.dataset.id !== this.id) this.select(row.dataset.id);
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  element(id = this.id) {
    return this.band.get(id)?.element ?? this.list.get(id)?.element ?? null;
  }

  select(id) {
    const before = this.element();
    if (before) { before.removeAttribute("aria-selected"); before.tabIndex = -1; }
    this.id = id;
    this.mark();
  }

  // The row may have been drawn anew; with none selected the first one can be tabbed to.
  mark() {
    const element = this.element();
    if (element) {
      element.setAttribute("aria-selected", "true");
      element.tabIndex = 0;
    } else {
      const first = this.band.ids()[0] ?? this.list.first()?.id;
      const target = first && this.element(first);
      if (target && target !== this.stop) {
        if (this.stop && this.stop !== element) this.stop.tabIndex = -1;
        target.tabIndex = 0;
        this.stop = target;
      }
    }
  }

  clicked(event) {
    const row = event.target.closest("[data-id]");
    if (!row || event.target.closest("button, a") || String(getSelection())) return;
    this.select(row.dataset.id);
    row.focus({ preventScroll: true });
    this.on.open(row.dataset.id);
  }

  move(step) {
    const next = this.next(step);
    if (!next) return;
    this.select(next);
    const element = this.element();
    element.scrollIntoView({ block: "nearest" });
    element.focus({ preventScroll: true });
    if (this.on.isDrawerOpen()) this.on.open(next);
  }

  next(step) {
    const open = this.band.ids();
    if (!this.element()) return open[0] ?? this.list.first()?.id;
    const at = open.indexOf(this.id);
    if (at >= 0) return open[at + step] ?? (step > 0 ? this.list.first()?.id : null);
    return this.list.neighbour(this.id, step)?.id ?? (step < 0 ? open.at(-1) : null);
  }

  key(event) {
    const target = event.target;
    const quiet = event.ctrlKey || event.metaKey || event.altKey || event.isComposing
      || target.closest("input:not([type=checkbox]), textarea, dialog[open], .menu[open]");
    if (quiet || event.defaultPrevented) return;
    const inDrawer = target.closest("#drawer");
    const pressable = target.closest("button, a, summary, label, input");
    const keys = {
      j: () => this.move(1),
      k: () => this.move(-1),
      ArrowDown: inDrawer || pressable ? null : () => this.move(1),
      ArrowUp: inDrawer || pressable ? null : () => this.move(-1),
      Enter: pressable || inDrawer || !this.element() ? null : () => this.on.open(this.id),
      Escape: this.on.isDrawerOpen() ? () => this.on.close() : null,
      " ": pressable || inDrawer ? null : () => this.on.pause(),
      Home: pressable || inDrawer ? null : () => this.on.newest(),
      f: () => { find("text").focus(); find("text").select(); },
    };
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }

  // The drawer closed: the focus goes back to the row it showed.
  returnFocus() {
    (this.element() ?? find("grid").querySelector("[tabindex='0']"))?.focus({ preventScroll: true });
  }
}
