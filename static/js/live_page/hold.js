// Rows never slide under the pointer: while somebody points at the list, walks it with the keys or
// has scrolled away from its top, what comes is held back. A pause is another thing: that one is
// asked for, and the server counts.

import { find } from "../ui/dom.js";
import { count } from "../ui/words.js";

// A pointer that rests is not read by.
const IDLE_MS = 3000;
const TOP_PX = 4;
const ROW_KEYS = ["j", "k", "ArrowUp", "ArrowDown", "Enter"];

export class Hold {
  // onRelease(): take in what was held.
  constructor(onRelease) {
    this.onRelease = onRelease;
    this.usedAt = -Infinity;
    this.at = "";
    this.size = 0;
    this.box = find("live");
    this.bar = find("held");
    const grid = find("grid");
    for (const kind of ["pointermove", "pointerdown"]) {
      grid.addEventListener(kind, (event) => this.pointed(event), { passive: true });
    }
    grid.addEventListener("wheel", () => this.used(), { passive: true });
    // A finger leaves with every tap: only idling releases then.
    grid.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "mouse") return;
      this.usedAt = -Infinity;
      this.look();
    });
    grid.addEventListener("keydown", (event) => { if (ROW_KEYS.includes(event.key)) this.used(); });
    grid.addEventListener("focusout", () => this.later(0));
    this.box.addEventListener("scroll", () => this.later(60), { passive: true });
    this.bar.addEventListener("click", () => this.toTop());
  }

  // Browsers tell of a move when the page moves under a pointer that rests: that is none.
  pointed(event) {
    const at = `${event.clientX},${event.clientY}`;
    if (event.type === "pointermove" && at === this.at) return;
    this.at = at;
    if (event.target.closest(".row")) this.used();
  }

  used() {
    this.usedAt = performance.now();
    this.later(IDLE_MS + 20);
  }

  get pointing() { return performance.now() - this.usedAt < IDLE_MS; }
  // Away from the top: the newest row is out of sight.
  get away() {
    const { scrollTop } = this.box;
    return scrollTop > TOP_PX && scrollTop > find("rows").offsetTop - find("head").offsetHeight + TOP_PX;
  }
  get on() { return this.pointing || this.away; }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), ms);
  }

  look() {
    if (!this.on) this.onRelease();
    else {
      if (this.pointing) this.later(IDLE_MS + 20 - (performance.now() - this.usedAt));
      this.show(this.size);
    }
  }

  // How many wait; none: nothing is said.
  show(size) {
    this.size = size;
    this.bar.hidden = size === 0;
    if (size === 0) return;
    const words = this.away ? `${count(size)} new above` : `${count(size)} new, held while you point`;
    if (this.bar.textContent !== words) this.bar.textContent = words;
  }

  toTop() {
    this.usedAt = -Infinity;
    this.box.scrollTop = 0;
    this.onRelease();
  }

  // The view stays where it is whatever comes or goes above it.
  steady(run) {
    if (this.box.scrollTop <= TOP_PX) { run(); return; }
    const top = this.box.getBoundingClientRect().top;
    const seen = [...this.box.querySelectorAll("#rows > .row")]
      .find((row) => row.getBoundingClientRect().bottom > top + 28);
    const before = seen?.getBoundingClientRect().top;
    run();
    if (seen?.isConnected) this.box.scrollTop += seen.getBoundingClientRect().top - before;
  }
}
