// New samples while one looks: the server says that there are some, the page fetches them.

import { Clock } from "../ui/clock.js";
import { Connection } from "../ui/connection.js";
import { find } from "../ui/dom.js";

export class LiveSamples {
  // `fetch()` reads anew; `paceMs()` says how often that is worth it, null: never; `busy()` whether
  // one reads just now: a slow answer is waited for, never begun anew.
  constructor(fetch, paceMs, busy) {
    this.fetch = fetch;
    this.busy = busy;
    this.paceMs = paceMs;
    this.fetchedAt = -Infinity;
    this.sampled = false;
    const sources = find("lag").dataset.sources.split(",").filter(Boolean).map(Number);
    this.connection = new Connection(find("lag").dataset.socket, new Clock(), {
      open: () => this.connection.send({ type: "watch", sources }),
      message: (message) => { if (message.type === "sampled") { this.sampled = true; this.look(); } },
      lost() {},
      ended() {},
    });
    setInterval(() => this.look(), 1000);
    document.addEventListener("visibilitychange", () => this.look());
  }

  fetched() { this.fetchedAt = performance.now(); this.sampled = false; }

  look() {
    const pace = this.paceMs();
    // A hidden tab asks nothing; it catches up when it is seen again.
    if (document.hidden || pace === null || this.busy()) return;
    const age = performance.now() - this.fetchedAt;
    // Without a word from the socket for long: it may be lost.
    if ((this.sampled && age >= pace) || age >= Math.max(12_000, pace + 6_000)) {
      this.fetched();
      this.fetch();
    }
  }
}
