// The lag page: reads what the address asks for, draws it, and keeps it up to date.

import { find } from "../live/dom.js";
import { dataUrl, go, showAddress, words } from "./address.js";
import { onTheme } from "./ink.js";
import { LiveSamples } from "./live.js";
import { Panel } from "./panel.js";
import { startPointer } from "./pointer.js";
import { showRail } from "./rail.js";
import { fillTable } from "./table.js";
import { TimeAxis } from "./time-axis.js";
import { momentWords } from "./words.js";

const plotly = new Promise((resolve) => {
  if (window.Plotly) resolve();
  else find("plotly").addEventListener("load", resolve);
});

const page = {
  answer: null, axis: null, panels: [], pointed: null, keyed: false,

  get slotWords() { return words().getAll("slot").join(", "); },
  get timed() { return this.panels.filter((panel) => panel.chart.timed); },

  emptyWords(chart) {
    const { answer } = this;
    if (answer.sampled) return chart.note;
    if (!answer.live) return "No sample was kept of this stretch of time.";
    return `No sample yet. First sample in ${Math.round(answer.interval_seconds) || 5} s.`;
  },

  // The nearest point's value; null where none is near enough to speak for this moment.
  valueAt(line, ms) {
    const place = nearest(line.x, ms);
    const most = 1500 * Math.max(this.answer.step_seconds, this.answer.interval_seconds);
    return place < 0 || Math.abs(line.x[place] - ms) > most ? null : line.y[place];
  },

  pointAt(ms) {
    this.pointed = ms;
    return this.timed.map((panel) => panel.point(this, ms)).join(". ");
  },

  // By keys: so many points on, or to the first or last.
  step(by) {
    const line = this.timed.flatMap((panel) => panel.lines).reduce((most, one) => (one.x.length > (most?.x.length ?? 0) ? one : most), null);
    if (!line) return "Nothing to read.";
    const at = this.pointed === null ? line.x.length - 1 : nearest(line.x, this.pointed);
    const to = by === "Home" ? 0 : by === "End" ? line.x.length - 1 : at + by;
    const ms = line.x[Math.min(Math.max(to, 0), line.x.length - 1)];
    const said = this.pointAt(ms);
    return `${momentWords(ms, this.axis.span)}. ${said}`;
  },

  select(from, to) {
    for (const panel of this.timed) {
      panel.drag.hidden = from === null;
      if (from === null) continue;
      const [left, right] = [this.axis.x(from), this.axis.x(to)].sort((a, b) => a - b);
      panel.drag.style.left = `${left}px`;
      panel.drag.style.width = `${right - left}px`;
    }
  },

  zoom(from, to) {
    const [since, until] = [from, to].sort((a, b) => a - b);
    const middle = (since + until) / 2, half = Math.max((until - since) / 2, 10_000);
    go({ from: new Date(middle - half).toISOString(), to: new Date(middle + half).toISOString() }, { zoomed: true });
    read();
  },

  zoomOut() {
    const given = words();
    if (!given.has("from") && !given.has("to")) return;
    if (history.state?.zoomed) history.back();
    else { go({ from: "", to: "" }); read(); }
  },
};

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

let asking = null;
async function read() {
  asking?.abort();
  const mine = (asking = new AbortController());
  live.fetched();
  showAddress(null);
  const trouble = find("lag-trouble");
  try {
    const [response] = await Promise.all([
      fetch(dataUrl(), { signal: mine.signal, headers: { Accept: "application/json" } }), plotly,
    ]);
    if (response.redirected || response.status === 403) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    page.answer = await response.json();
    trouble.hidden = true;
    await draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    trouble.textContent = "The charts cannot be read just now; the page tries again every few seconds.";
    trouble.hidden = false;
  } finally {
    if (asking === mine) {
      asking = null;
      live.look();
    }
  }
}

async function draw() {
  const { answer } = page;
  if (!answer) return;
  const place = find("lag-charts");
  const keys = answer.charts.map((chart) => chart.key).join();
  if (page.panels.map((panel) => panel.key).join() !== keys) {
    page.panels = answer.charts.map((chart) => new Panel(chart.key));
    for (const panel of page.panels) panel.page = page;
    place.replaceChildren(...page.panels.map((panel) => panel.element));
  }
  showTables();
  const width = page.panels[0]?.plot.clientWidth ?? 600;
  page.axis = new TimeAxis(answer.since, answer.until, width);
  page.panels.forEach((panel, number) => panel.show(answer.charts[number], page));
  const last = page.timed.at(-1);
  await Promise.all(page.panels.map((panel) => panel.draw(page, panel === last)));
  showRail(page);
  showAddress(answer);
  // The window moves on under a crosshair that was left at its beginning.
  page.pointAt(page.pointed === null ? null : Math.min(Math.max(page.pointed, answer.since), answer.until));
  place.setAttribute("aria-busy", "false");
}

function showTables() {
  const on = words().get("table") === "1";
  find("lag-as-table").setAttribute("aria-pressed", String(on));
  for (const panel of page.panels) {
    panel.table.hidden = !on;
    if (on && panel.chart && page.axis) fillTable(panel, page);
  }
}

const live = new LiveSamples(read, () => {
  if (!page.answer?.live) return null;
  return Math.min(page.answer.step_seconds * 100, 60_000);
}, () => asking !== null);

find("lag-as-table").addEventListener("click", () => {
  go({ table: words().get("table") === "1" ? "" : "1" }, history.state, { replace: true });
  draw();
});
find("lag-out").addEventListener("click", () => page.zoomOut());
find("lag-toolbar").addEventListener("click", (event) => {
  const link = event.target.closest("a[data-range]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go({ range: link.dataset.range, from: "", to: "" });
  page.pointed = null;
  read();
});
addEventListener("popstate", () => read());
startPointer(find("lag-charts"), page);
onTheme(() => draw());
let width = 0;
new ResizeObserver(() => {
  const now = find("lag-charts").clientWidth;
  if (width && now !== width) draw();
  width = now;
}).observe(find("lag-charts"));

if (!new URLSearchParams(location.search).has("slot")) go({}, {}, { replace: true });
read();
