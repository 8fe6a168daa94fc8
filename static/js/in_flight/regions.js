// Parts of the page with data-region, renewed about once a second: asked with the revision that was
// seen last, the server answers 204 while nothing is new. Nothing is asked while the tab is hidden.

import { announceSentence } from "../ui/announce.js";
import { fragment } from "../ui/dom.js";
import { morphChildren } from "../ui/morph.js";

const PACE_MS = 800;
const LATE_MS = 5000;
const SLOWEST_MS = 8000;

export class Regions {
  // on: {changed(regions)}, called with the new parts once they are on the page
  constructor(address, on) {
    Object.assign(this, { address, on, pace: PACE_MS, answeredAt: performance.now() });
    this.list = document.querySelector('[data-region="list"]');
  }

  start() {
    this.later();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.renew(); });
    setInterval(() => this.tellLiveness(), 1000);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.renew(), this.pace);
  }

  // again: whatever was seen, because the address has changed.
  async renew({ again = false } = {}) {
    clearTimeout(this.timer);
    if (document.hidden) return;
    this.asked?.abort();
    const asked = this.asked = new AbortController();
    const query = new URLSearchParams(location.search);
    if (!again) query.set("seen", this.list.dataset.revision);
    const limit = setTimeout(() => asked.abort(), LATE_MS);
    try {
      const answer = await fetch(`${this.address}?${query}`, { signal: asked.signal });
      if (answer.redirected) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      if (answer.status === 200) this.put(fragment(await answer.text()));
      this.answeredAt = performance.now();
      this.pace = PACE_MS;
    } catch (error) {
      // Asked anew meanwhile: that answer counts.
      if (this.asked !== asked) return;
      this.pace = Math.min(this.pace * 1.6, SLOWEST_MS);
    } finally {
      clearTimeout(limit);
      if (this.asked === asked) this.later();
    }
    this.tellLiveness();
  }

  put(fresh) {
    const before = new Set([...this.list.querySelectorAll("tr[id]")].map((row) => row.id));
    for (const part of [...fresh.querySelectorAll("[data-region]")]) {
      const place = document.querySelector(`main [data-region="${part.dataset.region}"]`);
      if (!place || (part.dataset.tx && part.dataset.tx !== place.dataset.tx)) continue;
      if (part.dataset.state) place.dataset.was = place.dataset.state;
      Object.assign(place.dataset, { ...part.dataset });
      morphChildren(place, part);
    }
    for (const row of this.list.querySelectorAll("tr[id]")) {
      if (!before.has(row.id)) row.classList.add("fresh");
    }
    announceSentence();
    this.on.changed(fresh);
  }

  tellLiveness() {
    const place = document.getElementById("liveness");
    const late = performance.now() - this.answeredAt > LATE_MS && !document.hidden;
    const words = late ? "no answer: not live" : "updates live";
    if (place.textContent !== words) place.textContent = words;
    place.classList.toggle("late", late);
  }
}
