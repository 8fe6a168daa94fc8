// The tables that a transaction touched, with counts: as many as fit, then "+2". Widths are reckoned
// from the fonts, measured once: laying out every row to find its width would cost more than the row.

import { el } from "../ui/dom.js";
import { bytes, count, tableName } from "../ui/words.js";

// A snapshot's rows come as a fifth count.
const LETTERS = ["I", "U", "D", "T", "S"];
const NAMES = { I: "inserts", U: "updates", D: "deletes", T: "truncates", M: "messages", S: "rows" };
const TILE_PX = 20;
const GAP_PX = 6;
const BETWEEN_PX = 12;
const MORE_PX = 34;

const tiles = Object.fromEntries(["I", "U", "D", "T", "M", "S"].map((letter) => {
  const tile = el("span", `op op-${letter}`);
  const mark = el("b", "", letter);
  mark.setAttribute("aria-hidden", "true");
  tile.append(mark, el("span", "visually-hidden", `${NAMES[letter]} `), el("span", "n"));
  return [letter, tile];
}));

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

function operation(name, number) {
  const tile = tiles[name].cloneNode(true);
  if (number === null) tile.lastChild.remove();
  else tile.lastChild.textContent = count(number);
  return tile;
}

const widthOf = ([name, ...counts]) => tableName(name).length * letter + BETWEEN_PX
  + counts.reduce((sum, number) => sum + (number ? GAP_PX + TILE_PX + count(number).length * digit : 0), 0);

function touched([name, ...counts]) {
  const made = el("span", "touched");
  made.append(el("code", "", tableName(name)));
  counts.forEach((number, at) => { if (number) made.append(operation(LETTERS[at], number)); });
  return made;
}

const tableWords = ([name, ...counts]) => {
  const done = counts.map((number, at) => (number ? `${count(number)} ${number === 1 ? NAMES[LETTERS[at]].slice(0, -1) : NAMES[LETTERS[at]]}` : ""));
  return `${tableName(name)}: ${done.filter(Boolean).join(", ")}`;
};

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
export function fillTables(made, data, grown = 0) {
  made.textContent = "";
  let left = room;
  if (data.origin) {
    const chip = el("span", "chip chip-plain from", `from ${data.origin}`);
    made.append(chip);
    if (chipShown()) left -= chip.textContent.length * digit + 22;
  }
  const tail = grown > 0 ? `growing ${count(Math.round(grown))}/s` : "";
  if (tail) left -= tail.length * digit + GAP_PX;
  if (data.messages && data.tables.length) left -= TILE_PX;
  const widths = data.tables.map(widthOf);
  const fit = data.tables.length ? fitting(widths, data.more_tables, left) : 0;
  for (const table of data.tables.slice(0, fit)) made.append(touched(table));
  const hidden = data.tables.slice(fit);
  if (hidden.length + data.more_tables) {
    const more = el("span", "quiet more-tables", `+${hidden.length + data.more_tables}`);
    const others = data.more_tables ? [`${data.more_tables} more tables`] : [];
    more.dataset.tip = [...hidden.map(tableWords), ...others].join("; ");
    more.append(el("span", "visually-hidden", ` more tables: ${more.dataset.tip}`));
    made.append(more);
  }
  if (data.messages && !data.tables.length) {
    made.append(operation("M", data.messages > 1 ? data.messages : null));
    if (data.prefix !== null) made.append(el("code", "prefix", data.prefix));
    made.append(el("span", "quiet tail", `message only, ${bytes(data.bytes)}`));
  } else if (data.messages) made.append(operation("M", null));
  if (!data.tables.length && !data.messages) made.append(el("span", "quiet", "no published change"));
  if (tail) made.append(el("span", "quiet tail growing", tail));
  // More than one table, or a chip: another width may show another number of them.
  made.dataset.fits = data.tables.length > 1 || data.origin ? "some" : "";
}

// Where the origin has no column of its own it stands before the tables, if there is room: as in live.css.
const originColumn = matchMedia("(min-width: 1280px)");
const phone = matchMedia("(max-width: 639px)");
const chipShown = () => phone.matches
  || originColumn.matches === document.body.classList.contains("with-drawer");
