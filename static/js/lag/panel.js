// One chart: its title line, its plot, its table. The figure comes from the server without colours.

import { el } from "../ui/dom.js";
import { icon } from "../ui/icon.js";
import { CONFIG } from "./plotly-config.js";
import { fillTable } from "./table.js";
import { ink } from "./ink.js";
import { momentWords, valueWords } from "./words.js";
import { savePicture } from "./picture.js";

const DASHES = { solid: "", dash: "5 3", dot: "1.5 2.5", dashdot: "5 2 1.5 2" };
const SVG = "http://www.w3.org/2000/svg";

export class Panel {
  // `prefix` keeps the ids of several charts of one kind apart.
  constructor(key, prefix = "chart-") {
    this.key = key;
    this.element = el("section", "lag-chart");
    this.element.id = `${prefix}${key}`;
    const head = el("div", "lag-chart-head");
    this.title = el("h2");
    this.title.id = `${this.element.id}-title`;
    this.element.setAttribute("aria-labelledby", this.title.id);
    this.legend = el("ul", "lag-legend");
    this.at = el("p", "lag-at");
    const picture = el("button", "btn btn-icon");
    picture.type = "button";
    picture.append(icon("download", 14));
    picture.addEventListener("click", () => savePicture(this));
    this.pictureButton = picture;
    this.note = el("p", "lag-note");
    head.append(this.title, this.legend, this.note, this.at, picture);
    this.plot = el("div", "lag-plot");
    this.canvas = el("div", "lag-canvas");
    this.cross = el("i", "lag-cross");
    this.ring = el("i", "lag-ring");
    this.drag = el("i", "lag-drag");
    this.badge = el("span", "lag-badge");
    this.empty = el("p", "lag-empty");
    for (const part of [this.cross, this.ring, this.drag, this.badge, this.empty]) part.hidden = true;
    this.plot.append(this.canvas, this.empty, this.drag, this.cross, this.ring, this.badge);
    this.table = el("div", "lag-table");
    this.table.hidden = true;
    const body = el("div", "lag-body");
    body.append(this.plot, this.table);
    this.element.append(head, body);
  }

  show(chart, page) {
    this.chart = chart;
    this.lines = chart.figure.data.filter((trace) => !trace.meta.hatched);
    this.title.textContent = chart.title;
    const name = `${chart.title}: save as a picture`;
    this.pictureButton.setAttribute("aria-label", name);
    this.pictureButton.dataset.tip = "PNG";
    this.legend.replaceChildren(...chart.legend.map(legendItem));
    const drawn = this.lines.some((line) => line.y.some((value) => value !== null));
    this.note.textContent = drawn ? chart.note : "";
    this.note.hidden = !drawn || !chart.note;
    this.empty.hidden = drawn;
    this.empty.textContent = drawn ? "" : page.emptyWords(chart);
    this.plot.classList.toggle("untimed", !chart.timed);
    if (chart.timed) {
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "slider");
      this.plot.setAttribute("aria-label", `${chart.title}, moment`);
      this.plot.setAttribute("aria-describedby", "lag-keys");
      this.plot.setAttribute("aria-valuemin", Math.round(page.answer.since));
      this.plot.setAttribute("aria-valuemax", Math.round(page.answer.until));
    } else {
      this.plot.setAttribute("role", "img");
      this.plot.setAttribute("aria-label", `${chart.title}; its values are in the table`);
    }
    if (!this.table.hidden) fillTable(this, page);
  }

  // With the ink of the theme, the axis and events of the page, at the size there is.
  figure(page, { labelled }) {
    const axis = page.axis;
    const { data, layout } = this.chart.figure;
    const text = ink("text-3");
    const drawn = {
      ...layout,
      width: this.plot.clientWidth, height: this.plot.clientHeight,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: text },
      margin: { ...layout.margin, l: axis.left, r: axis.right, b: labelled ? 24 : layout.margin.b },
      xaxis: { ...layout.xaxis, gridcolor: ink("line"), linecolor: ink("line-2"), showline: true, color: text },
      yaxis: { ...layout.yaxis, gridcolor: ink("line"), color: text, ticklabelstandoff: 6 },
      shapes: layout.shapes.map((shape) => ({ ...shape, line: { ...shape.line, color: ink(shape.name) } })),
      annotations: layout.annotations.map((one) => ({ ...one, font: { color: ink(one.name), size: 11 } })),
    };
    if (this.chart.timed) {
      const ticks = axis.ticks();
      Object.assign(drawn.xaxis, {
        range: [axis.since, axis.until], tickmode: "array", tickvals: ticks.values,
        ticktext: ticks.words, showticklabels: labelled, ticks: "",
      });
      drawn.shapes.push(...page.answer.events.map(eventLine));
      drawn.annotations.push(...this.chart.unknown.map((one) => unknownWords(one, axis)).filter(Boolean));
    }
    const runs = this.lines.filter((line) => line.meta.area && !line.stackgroup).flatMap(filledRuns);
    if (!this.chart.timed) {
      // As many words as there is room for.
      const names = this.lines[0].x, every = Math.ceil((names.length * 52) / axis.inside);
      Object.assign(drawn.xaxis, { tickmode: "array", tickangle: 0, tickvals: names.filter((_, place) => place % every === 0) });
    }
    return { data: [...runs, ...data.map(trace), ...(this.chart.timed ? this.lines.flatMap(newest) : [])], layout: drawn };
  }

  draw(page, labelled) {
    this.labelled = labelled;
    this.plot.classList.toggle("labelled", labelled);
    const { data, layout } = this.figure(page, { labelled });
    return window.Plotly.react(this.canvas, data, layout, CONFIG);
  }

  // The title line and the crosshair at a moment; null: at the newest point.
  point(page, ms) {
    if (!this.chart.timed) return "";
    const axis = page.axis;
    const at = ms ?? this.newest() ?? axis.until;
    const words = momentWords(at, axis.span);
    const values = this.lines.map((line) => [line, page.valueAt(line, at)]);
    const shown = values.slice(0, 4);
    this.at.replaceChildren(`${words} `);
    for (const [number, [line, value]] of shown.entries()) {
      if (number) this.at.append(" · ");
      const text = valueWords(this.chart.unit, value);
      this.at.append(el(value === null ? "span" : "b", value === null ? "unknown" : "", text));
      if (line.meta.word && (this.lines.length > 1)) this.at.append(` ${line.meta.word}`);
    }
    if (values.length > shown.length) this.at.append(` and ${values.length - shown.length} more`);
    this.place(axis, ms, values);
    this.plot.setAttribute("aria-valuenow", Math.round(at));
    this.plot.setAttribute("aria-valuetext", words);
    return `${this.chart.title}: ${values.slice(0, 4).map(([line, value]) => `${this.lines.length > 1 ? `${line.meta.word || line.name} ` : ""}${valueWords(this.chart.unit, value)}`).join(", ")}`;
  }

  newest() { return Math.max(...this.lines.map((line) => line.x.at(-1) ?? 0)) || null; }

  place(axis, ms, values) {
    const shown = ms !== null && ms >= axis.since && ms <= axis.until;
    const x = shown ? axis.x(ms) : 0;
    this.cross.hidden = !shown;
    this.cross.style.transform = `translateX(${x}px)`;
    this.cross.style.bottom = `${this.labelled ? 24 : 6}px`;
    this.badge.hidden = !shown || !this.labelled;
    this.badge.textContent = momentWords(ms ?? 0, axis.span);
    this.badge.style.left = `${Math.min(Math.max(x, axis.left), axis.width - 40)}px`;
    const [line, value] = values[0] ?? [];
    this.ring.hidden = !shown || value === null || value === undefined || Boolean(line.stackgroup);
    if (this.ring.hidden) return;
    const { range } = this.chart.figure.layout.yaxis;
    const height = this.plot.clientHeight - 8 - (this.labelled ? 24 : 6);
    this.ring.style.transform = `translate(${x}px, ${8 + height * (1 - value / range[1])}px)`;
    this.ring.style.borderColor = ink(line.meta.ink);
  }
}

function trace(given) {
  const { ink: name, hatched, area } = given.meta;
  if (hatched) {
    return { ...given, fillcolor: "rgba(0,0,0,0)", fillpattern: { ...given.fillpattern, fgcolor: ink(name, 0.7), bgcolor: "rgba(0,0,0,0)" } };
  }
  if (given.type === "bar") return { ...given, marker: { color: ink(name) } };
  const made = { ...given, line: { ...given.line, color: ink(name) } };
  if (area && given.stackgroup) made.fillcolor = ink(name, 0.3);
  return made;
}

// What is below a line, a run of known points at a time: plotly would fill across the gaps.
function filledRuns(line) {
  const runs = [];
  let start = -1;
  for (let place = 0; place <= line.y.length; place += 1) {
    const known = place < line.y.length && line.y[place] !== null;
    if (known && start < 0) start = place;
    if (known || start < 0) continue;
    runs.push({
      type: "scatter", mode: "none", x: line.x.slice(start, place), y: line.y.slice(start, place),
      fill: "tozeroy", fillcolor: ink(line.meta.ink, 0.12), meta: { filled: true }, showlegend: false,
    });
    start = -1;
  }
  return runs;
}

// The newest point of a line as a dot, where it is known.
function newest(line) {
  const at = line.y.length - 1;
  if (at < 0 || line.y[at] === null || line.stackgroup || line.type === "bar") return [];
  return [{ type: "scatter", mode: "markers", x: [line.x[at]], y: [line.y[at]], cliponaxis: false, marker: { size: 6, color: ink(line.meta.ink) } }];
}

const eventLine = (event) => ({
  type: "line", xref: "x", yref: "paper", x0: event.at, x1: event.at, y0: 0, y1: 1, layer: "below",
  line: { width: 1, color: event.bad ? ink("del", 0.45) : ink("control", 0.5) },
});

function unknownWords(one, axis) {
  const since = Math.max(one.since, axis.since), until = Math.min(one.until, axis.until);
  const words = `unknown${one.open ? ` since ${momentWords(one.since, axis.span)}` : ""}: ${one.why}`;
  if (axis.x(until) - axis.x(since) < words.length * 5.5) return null;
  return {
    text: words, xref: "x", x: (since + until) / 2, yref: "paper", y: 0.6, showarrow: false,
    font: { color: ink("text-2"), size: 11 }, bgcolor: ink("surface"), bordercolor: ink("line-2"),
    borderpad: 5,
  };
}

function legendItem({ name, ink: colour, dash }) {
  const item = el("li");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 18 8");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, dash === "bar" ? "rect" : "line");
  const places = dash === "bar" ? { x: 4, y: 0, width: 8, height: 8 } : { x1: 0, y1: 4, x2: 18, y2: 4 };
  for (const [key, value] of Object.entries(places)) line.setAttribute(key, value);
  if (DASHES[dash]) line.setAttribute("stroke-dasharray", DASHES[dash]);
  line.style[dash === "bar" ? "fill" : "stroke"] = `var(--${colour})`;
  svg.append(line);
  item.append(svg, name);
  return item;
}
