// A chart as a table, newest first: for those who cannot see it, and for exact values.

import { el } from "../ui/dom.js";
import { momentWords, valueWords } from "./words.js";

export function fillTable(panel, page) {
  const { chart, lines } = panel;
  const scrolled = panel.table.scrollTop;
  const table = el("table");
  table.append(el("caption", "", `${chart.title}, newest first`));
  const head = table.createTHead().insertRow();
  for (const name of [chart.timed ? "Time" : "Changes", ...lines.map((line) => line.name)]) {
    const cell = el("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const [key, values] of rowsOf(lines, chart.timed)) {
    const row = body.insertRow();
    const time = el("th", "", chart.timed ? momentWords(key, page.axis.span) : String(key));
    time.scope = "row";
    if (chart.timed) time.dataset.tip = `${new Date(key).toISOString().replace("T", " ").replace("Z", "")} UTC`;
    row.append(time);
    for (const value of values) row.append(el("td", value === null ? "unknown" : "", valueWords(chart.unit, value)));
  }
  panel.table.replaceChildren(table);
  panel.table.tabIndex = 0;
  panel.table.setAttribute("role", "region");
  panel.table.setAttribute("aria-label", `${chart.title} as a table`);
  panel.table.scrollTop = scrolled;
}

// Lines of one slot share their moments; those of several slots are put together by theirs.
function rowsOf(lines, timed) {
  const rows = new Map();
  lines.forEach((line, number) => {
    line.x.forEach((key, place) => {
      if (!rows.has(key)) rows.set(key, new Array(lines.length).fill(null));
      rows.get(key)[number] = line.y[place];
    });
  });
  const all = [...rows];
  return timed ? all.sort((a, b) => b[0] - a[0]).slice(0, 1000) : all;
}
