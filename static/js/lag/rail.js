// Events on the time axis: a symbol each, its words above it where they do not cover others.

import { el, find } from "../ui/dom.js";
import { momentWords } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
// Shape → path, and whether it is filled: told apart without colour.
const SHAPES = {
  disc: ["M6 1a5 5 0 1 0 .01 0z", "filled"],
  ring: ["M6 1.5a4.5 4.5 0 1 0 .01 0z", "hollow"],
  cross: ["M1.5 1.5l9 9M10.5 1.5l-9 9", ""],
  square: ["M2 2h8v8h-8z", "hollow"],
  diamond: ["M6 .5l5.5 5.5l-5.5 5.5l-5.5-5.5z", "hollow"],
  triangle: ["M6 .5l6 11h-12z", "filled"],
  tick: ["M1.5 6.5l3 3l6-7", ""],
  flag: ["M3 11.5v-11l7 3.2l-7 3.3", "hollow"],
  bars: ["M4 1v10M8 1v10", ""],
};

export function showRail(page) {
  const line = find("lag-rail-line");
  const { events, checkpoints } = page.answer;
  const untold = find("lag-checkpoints");
  untold.hidden = !checkpoints || events.some((event) => event.kind === "checkpointed");
  untold.textContent = `${checkpoints} checkpoints in this time: each is drawn in a shorter one.`;
  const focused = document.activeElement?.closest?.(".lag-event")?.dataset.key;
  // It ends where the plots do, tables beside them or not.
  line.style.width = `${page.axis.inside}px`;
  let free = -Infinity;
  line.replaceChildren(...events.map((event) => {
    const x = page.axis.x(event.at) - page.axis.left;
    const made = el("div", `lag-event${event.bad ? " bad" : ""}`);
    made.dataset.key = `${event.at} ${event.kind}`;
    made.style.left = `${x}px`;
    const words = event.slot ? `${event.slot.split("/").pop()}: ${event.word}` : event.word;
    const width = words.length * 5.6 + 12;
    const atStart = x < width / 2, atEnd = x > page.axis.inside - width / 2;
    const from = atStart ? x : atEnd ? x - width : x - width / 2;
    if (from > free) {
      free = from + width;
      made.append(el("span", "", words));
      if (atStart) made.classList.add("at-start");
      else if (atEnd) made.classList.add("at-end");
    }
    made.append(symbol(event, page));
    return made;
  }));
  if (focused) line.querySelector(`[data-key="${CSS.escape(focused)}"] button`)?.focus();
  find("lag-events").replaceChildren(...[...events].reverse().map((event) =>
    el("li", "", `${momentWords(event.at, page.axis.span)} ${event.slot} ${event.word}: ${event.text}`)));
}

function symbol(event, page) {
  const button = el("button");
  button.type = "button";
  // The list beside the rail is what screen readers and keys use.
  button.tabIndex = -1;
  button.setAttribute("aria-hidden", "true");
  button.dataset.tip = `${momentWords(event.at, page.axis.span)} ${event.text}`;
  button.addEventListener("click", () => page.pointAt(event.at));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 12 12");
  const [path, filled] = SHAPES[event.shape] ?? SHAPES.ring;
  const drawn = document.createElementNS(SVG, "path");
  drawn.setAttribute("d", path);
  if (filled) drawn.setAttribute("class", filled);
  svg.append(drawn);
  button.append(svg);
  return button;
}
