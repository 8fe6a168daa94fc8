// The lag page: reads what the address asks for, draws it, and keeps it up to date.

import { find } from "../ui/dom.js";
import { dataUrl, go, showAddress, words } from "./address.js";
import { Charts, onWidth } from "./charts.js";
import { onTheme } from "./ink.js";
import { LiveSamples } from "./live.js";
import { startPointer } from "./pointer.js";
import { showRail } from "./rail.js";
import { fillTable } from "./table.js";

const plotly = new Promise((resolve) => {
  if (window.Plotly) resolve();
  else find("plotly").addEventListener("load", resolve);
});

class LagPage extends Charts {
  get slotWords() { return words().getAll("slot").join(", "); }

  zoom(from, to) {
    const [since, until] = [from, to].sort((a, b) => a - b);
    const middle = (since + until) / 2, half = Math.max((until - since) / 2, 10_000);
    go({ from: new Date(middle - half).toISOString(), to: new Date(middle + half).toISOString() }, { zoomed: true });
    read();
  }

  zoomOut() {
    const given = words();
    if (!given.has("from") && !given.has("to")) return;
    if (history.state?.zoomed) history.back();
    else { go({ from: "", to: "" }); read(); }
  }
}

const page = new LagPage(find("lag-charts"));

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
    trouble.textContent = "The charts cannot be loaded; the page retries every few seconds.";
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
  await page.draw(showTables);
  showRail(page);
  showAddress(answer);
  page.keepPointing();
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
onWidth(page.place, () => draw());

if (!new URLSearchParams(location.search).has("slot")) go({}, {}, { replace: true });
read();
