// The few charts of a slot's own page: the lag page's, of the last hour, drawn once they are seen.

import { find } from "../ui/dom.js";
import { Charts, onWidth } from "./charts.js";
import { onTheme } from "./ink.js";
import { LiveSamples } from "./live.js";
import { startPointer } from "./pointer.js";

const section = find("lag");

class SlotCharts extends Charts {
  get slotWords() { return section.dataset.slot; }

  // What is dragged over is looked at closer on the lag page.
  zoom(from, to) {
    const [since, until] = [from, to].sort((a, b) => a - b).map((ms) => new Date(ms).toISOString());
    location.assign(`${section.dataset.page}&from=${since}&to=${until}`);
  }

  zoomOut() {}
}

const charts = new SlotCharts(find("lag-charts"));
let plotly = null, asking = false, live = null;

function load() {
  plotly ??= new Promise((resolve, reject) => {
    if (window.Plotly) { resolve(); return; }
    const script = document.createElement("script");
    script.src = section.dataset.plotly;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
  return plotly;
}

async function read() {
  asking = true;
  live?.fetched();
  try {
    const [response] = await Promise.all([
      fetch(section.dataset.data, { headers: { Accept: "application/json" } }), load(),
    ]);
    if (response.redirected || response.status === 403) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    charts.answer = await response.json();
    find("lag-trouble").textContent = "";
    await draw();
  } catch {
    find("lag-trouble").textContent = "cannot be read just now";
  } finally {
    asking = false;
  }
}

async function draw() {
  if (!charts.answer) return;
  await charts.draw(() => { for (const panel of charts.panels) panel.pictureButton.remove(); });
  charts.keepPointing();
}

function begin() {
  live = new LiveSamples(read, () => Math.min((charts.answer?.step_seconds ?? 5) * 100, 60_000), () => asking);
  startPointer(charts.place, charts);
  onTheme(draw);
  onWidth(charts.place, draw);
  read();
}

new IntersectionObserver((seen, observer) => {
  if (!seen.some((one) => one.isIntersecting)) return;
  observer.disconnect();
  begin();
}, { rootMargin: "200px" }).observe(section);
