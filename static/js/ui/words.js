// Numbers, times and sizes as words; the same spellings as the server's.

const grouped = new Intl.NumberFormat("en");
const NO_BREAK = "\u00a0";

export const count = (number) => grouped.format(number);

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function bytes(number) {
  if (number === null) return "withheld";
  let size = Math.abs(number);
  let unit = 0;
  while (size >= 1023.5 && unit < 5) { size /= 1024; unit += 1; }
  const precise = unit > 0 && (size < 10 || (unit >= 3 && size < 100));
  const figure = precise ? size.toFixed(1).replace(/\.0$/, "") : size.toFixed(0);
  return `${figure}${NO_BREAK}${["B", "kB", "MB", "GB", "TB", "PB"][unit]}`;
}

export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  for (const [size, unit, smallSize, smallUnit] of [
    [86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"],
  ]) {
    if (seconds < size) continue;
    const small = Math.floor((seconds % size) / smallSize);
    const tail = small ? `${NO_BREAK}${small}${NO_BREAK}${smallUnit}` : "";
    return `${Math.floor(seconds / size)}${NO_BREAK}${unit}${tail}`;
  }
  return `${seconds}${NO_BREAK}s`;
}

export function delay(ms) {
  if (ms < 999.5) return `${Math.round(ms)}${NO_BREAK}ms`;
  return ms < 10000 ? `${(ms / 1000).toFixed(1)}${NO_BREAK}s` : age(ms);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "measuring rate";
  const figure = perSecond > 0 && perSecond < 1 ? perSecond.toFixed(1) : count(Math.round(perSecond));
  return `${figure}${NO_BREAK}tx/s`;
}

const two = (number) => (number < 10 ? `0${number}` : `${number}`);

let today = "";
let todayUntil = 0;

// 07:57:11.969, with the date where it is not today.
export function clock(ms) {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
    + `.${`${at.getMilliseconds()}`.padStart(3, "0")}`;
  const now = Date.now();
  if (now > todayUntil) { today = new Date(now).toDateString(); todayUntil = now + 1000; }
  if (at.toDateString() === today) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time.slice(0, 8)}`;
}

export const utc = (ms) => `${new Date(ms).toISOString().replace("T", " ").replace("Z", "")} UTC`;
