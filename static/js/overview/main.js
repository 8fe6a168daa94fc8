// The charts of the overview: a row a source, drawn once they are seen, with the data of the lag page.

import { find } from "../ui/dom.js";
import { Charts, onWidth } from "../lag/charts.js";
import { onTheme } from "../lag/ink.js";
import { LiveSamples } from "../lag/live.js";
import { startPointer } from "../lag/pointer.js";

// Often enough for an hour on so little room.
const PACE_MS = 10_000;

class SourceCharts extends Charts {
  constructor(section) {
    super(section.querySelector(".source-pair"));
    this.section = section;
    this.prefix = `${section.id}-`;
    startPointer(this.place, this);
    onWidth(this.place, () => this.show());
  }

  get slotWords() { return this.section.dataset.slots; }

  // They stand side by side: each has the words of its own time axis.
  isLabelled() { return true; }

  // What is dragged over is looked at closer on the lag page.
  zoom(from, to) {
    const [since, until] = [from, to].sort((a, b) => a - b).map((ms) => new Date(ms).toISOString());
    location.assign(`${this.section.dataset.page}&from=${since}&to=${until}`);
  }

  zoomOut() {}

  async read() {
    const response = await fetch(this.section.dataset.data, { headers: { Accept: "application/json" } });
    if (response.redirected || response.status === 403) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    // Without the lag page's rail nothing would say what happened at an event's line.
    this.answer = { ...await response.json(), events: [] };
    for (const chart of this.answer.charts) this.shorten(chart);
    await this.show();
  }

  // The row names the source: lines need the names of the slots only.
  shorten({ legend, figure }) {
    const short = (name) => name.replace(`${this.section.dataset.source}/`, "");
    for (const entry of legend) entry.name = short(entry.name);
    for (const { meta } of figure.data) if (meta.word) meta.word = short(meta.word);
  }

  async show() {
    if (!this.answer) return;
    await this.draw(() => { for (const panel of this.panels) panel.pictureButton.remove(); });
    this.keepPointing();
  }
}

const shown = new Map();
let plotly = null, asking = false, again = false;

function load() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = find("lag").dataset.plotly;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
  return plotly;
}

// The sources of now: what is refreshed every few seconds may have others than before.
function current() {
  for (const [section] of shown) if (!section.isConnected) shown.delete(section);
  for (const section of document.querySelectorAll(".source-charts")) {
    if (!shown.has(section)) shown.set(section, new SourceCharts(section));
  }
  return [...shown.values()];
}

async function read(live) {
  if (asking) { again = true; return; }
  asking = true;
  live.fetched();
  try {
    await load();
    await Promise.all(current().map((charts) => charts.read()));
    find("lag-trouble").textContent = "";
  } catch {
    find("lag-trouble").textContent = "cannot be read just now";
  } finally {
    asking = false;
  }
  if (again) { again = false; read(live); }
}

function begin() {
  const live = new LiveSamples(() => read(live), () => PACE_MS, () => asking);
  onTheme(() => { for (const charts of shown.values()) charts.show(); });
  document.body.addEventListener("htmx:afterSwap", () => {
    if ([...document.querySelectorAll(".source-charts")].some((section) => !shown.has(section))) read(live);
  });
  read(live);
}

const section = document.getElementById("lag");
if (section) {
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    observer.disconnect();
    begin();
  }, { rootMargin: "200px" }).observe(section);
}
