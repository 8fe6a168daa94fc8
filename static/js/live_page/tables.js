// The tables that a transaction touched: as many as fit, then "+2". Widths are reckoned from the
// fonts, measured once: laying out every row to find its width would cost more than the row.

import { el } from "../ui/dom.js";
import { count } from "../ui/words.js";

const TILE_PX = 20;
const GAP_PX = 6;
const BETWEEN_PX = 12;
const MORE_PX = 34;

let room = Infinity;
let letter = 7.3;
let digit = 6.8;

// The room of one cell, in pixels. Returns whether it is another than before.
export function setRoom(px) {
  const changed = Math.abs(px - room) > 0.5;
  room = px;
  return changed;
}

export function measureFonts(holder) {
  const probe = el("span", "visually-hidden probe");
  const code = el("code", "", "0".repeat(100));
  const figures = el("span", "", "0".repeat(100));
  probe.append(code, figures);
  holder.append(probe);
  letter = code.getBoundingClientRect().width / 100 || letter;
  digit = figures.getBoundingClientRect().width / 100 || digit;
  probe.remove();
}

const textWidth = (element, character) => element.textContent.length * character;

function widthOf(table) {
  const [name, ...operations] = table.children;
  return textWidth(name, letter) + BETWEEN_PX + operations.reduce(
    (sum, operation) => sum + GAP_PX + TILE_PX + textWidth(operation.lastElementChild, digit), 0,
  );
}

// How many of them fit, at least one; `left` is what the rest of the cell leaves them.
function fitting(widths, more, left) {
  const all = widths.reduce((sum, width) => sum + width, 0);
  if (!more && all <= left) return widths.length;
  let used = MORE_PX;
  let fit = 0;
  while (fit < widths.length && used + widths[fit] <= left) used += widths[fit++];
  return Math.max(1, fit);
}

// grown: rows a second of an open transaction, 0 for none.
export function showGrowth(cell, grown) {
  if (grown > 0) cell.append(el("span", "quiet tail growing", `growing ${count(Math.round(grown))}/s`));
}

export function fitTables(cell) {
  const tables = [...cell.querySelectorAll(".touched")];
  const chip = cell.querySelector(".from");
  const tail = cell.querySelector(".growing");
  // More than one table, or a chip: another width may show another number of them.
  cell.dataset.fits = tables.length > 1 || chip ? "some" : "";
  if (tables.length < 2) return;
  let left = room;
  if (chip && chipShown()) left -= textWidth(chip, digit) + 22;
  if (tail) left -= textWidth(tail, digit) + GAP_PX;
  if (cell.querySelector(":scope > .op")) left -= TILE_PX;
  const more = cell.querySelector(".more-tables");
  const beyond = Number(more.dataset.beyond);
  const fit = fitting(tables.map(widthOf), beyond, left);
  tables.forEach((table, at) => { table.hidden = at >= fit; });
  const hidden = tables.slice(fit).map((table) => table.dataset.words);
  more.hidden = !(hidden.length + beyond);
  const words = [...hidden, ...(beyond ? [`${beyond} more tables`] : [])].join("; ");
  more.dataset.tip = words;
  more.replaceChildren(`+${hidden.length + beyond}`, el("span", "visually-hidden", ` more tables: ${words}`));
}

// Where the origin has no column of its own it stands before the tables, if there is room: as in live.css.
const originColumn = matchMedia("(min-width: 1280px)");
const phone = matchMedia("(max-width: 639px)");
const chipShown = () => phone.matches
  || originColumn.matches === document.body.classList.contains("with-drawer");
