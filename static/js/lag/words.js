// Values and moments as words, in the units charts name.

import { age, bytes, count } from "../ui/words.js";

const NO_BREAK = "\u00a0";
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

export const dayWords = (at) => `${at.getDate()} ${MONTHS[at.getMonth()]}`;
export const hourWords = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
export const secondWords = (at) => `${hourWords(at)}:${two(at.getSeconds())}`;

// 07:20:05; with its day where the stretch is longer than one, or not today's.
export function momentWords(ms, spanMs) {
  const at = new Date(ms);
  const today = new Date().toDateString() === at.toDateString();
  if (spanMs > 200 * 86400e3) return `${dayWords(at)} ${at.getFullYear()} ${hourWords(at)}`;
  return today && spanMs <= 86400e3 ? secondWords(at) : `${dayWords(at)} ${hourWords(at)}`;
}

export function valueWords(unit, value) {
  if (value === null || value === undefined) return "unknown";
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  if (unit === "seconds") {
    if (value < 0.9995) return `${value < 0.001 && value > 0 ? "<1" : Math.round(value * 1000)}${NO_BREAK}ms`;
    return value < 60 ? `${value.toFixed(value < 10 ? 1 : 0)}${NO_BREAK}s` : age(value * 1000);
  }
  const figure = value > 0 && value < 10 && value % 1 ? value.toFixed(1) : count(Math.round(value));
  return unit.endsWith("/s") ? `${figure}/s` : figure;
}
