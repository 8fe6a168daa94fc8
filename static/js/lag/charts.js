// Charts over one time axis, whatever page they are on: their values at a moment, and drawing them.

import { Panel } from "./panel.js";
import { TimeAxis } from "./time-axis.js";
import { momentWords } from "./words.js";

export class Charts {
  // `place` is where they stand; `slotWords()` names what is drawn.
  constructor(place) {
    this.place = place;
    this.answer = null;
    this.axis = null;
    this.panels = [];
    this.pointed = null;
    this.keyed = false;
    this.prefix = "chart-";
  }

  // Charts below one another share the words of the last one's time axis.
  isLabelled(panel) { return panel === this.timed.at(-1); }

  get timed() { return this.panels.filter((panel) => panel.chart.timed); }

  emptyWords(chart) {
    const { answer } = this;
    if (answer.sampled) return chart.note;
    if (!answer.live) return "No samples in this time range.";
    return `No sample yet. First sample in ${Math.round(answer.interval_seconds) || 5} s.`;
  }

  // The nearest point's value; null where none is near enough to speak for this moment.
  valueAt(line, ms) {
    const place = nearest(line.x, ms);
    const most = 1500 * Math.max(this.answer.step_seconds, this.answer.interval_seconds);
    return place < 0 || Math.abs(line.x[place] - ms) > most ? null : line.y[place];
  }

  pointAt(ms) {
    this.pointed = ms;
    return this.timed.map((panel) => panel.point(this, ms)).join(". ");
  }

  // By keys: so many points on, or to the first or last.
  step(by) {
    const line = this.timed.flatMap((panel) => panel.lines).reduce((most, one) => (one.x.length > (most?.x.length ?? 0) ? one : most), null);
    if (!line) return "Nothing to read.";
    const at = this.pointed === null ? line.x.length - 1 : nearest(line.x, this.pointed);
    const to = by === "Home" ? 0 : by === "End" ? line.x.length - 1 : at + by;
    const ms = line.x[Math.min(Math.max(to, 0), line.x.length - 1)];
    const values = this.pointAt(ms);
    return `${momentWords(ms, this.axis.span)}. ${values}`;
  }

  select(from, to) {
    for (const panel of this.timed) {
      panel.drag.hidden = from === null;
      if (from === null) continue;
      const [left, right] = [this.axis.x(from), this.axis.x(to)].sort((a, b) => a - b);
      panel.drag.style.left = `${left}px`;
      panel.drag.style.width = `${right - left}px`;
    }
  }

  // Panels for what was answered, on an axis as wide as there is room; `made` before they are drawn.
  async draw(made = () => {}) {
    const { answer, place } = this;
    const keys = answer.charts.map((chart) => chart.key).join();
    if (this.panels.map((panel) => panel.key).join() !== keys) {
      this.panels = answer.charts.map((chart) => new Panel(chart.key, this.prefix));
      for (const panel of this.panels) panel.page = this;
      place.replaceChildren(...this.panels.map((panel) => panel.element));
    }
    made();
    const width = this.panels[0]?.plot.clientWidth ?? 600;
    this.axis = new TimeAxis(answer.since, answer.until, width);
    this.panels.forEach((panel, number) => panel.show(answer.charts[number], this));
    await Promise.all(this.panels.map((panel) => panel.draw(this, this.isLabelled(panel))));
  }

  // The window moves on under a crosshair that was left at its beginning.
  keepPointing() {
    const { answer } = this;
    this.pointAt(this.pointed === null ? null : Math.min(Math.max(this.pointed, answer.since), answer.until));
    this.place.setAttribute("aria-busy", "false");
  }
}

function nearest(sorted, wanted) {
  let low = 0, high = sorted.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - sorted[low - 1] < sorted[low] - wanted ? low - 1 : low;
}

// Draws anew when there is more or less room.
export function onWidth(place, changed) {
  let width = 0;
  new ResizeObserver(() => {
    const now = place.clientWidth;
    if (width && now !== width) changed();
    width = now;
  }).observe(place);
}
