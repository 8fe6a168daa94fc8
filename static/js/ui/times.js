// Times are local; UTC stands in the tooltip. Ages are counted on from the server's clock.

const ahead = Date.now() - (Date.parse(document.documentElement.dataset.now) || Date.now());

export const serverNow = () => Date.now() - ahead;

const two = (number) => String(number).padStart(2, "0");
const three = (number) => String(number).padStart(3, "0");

const day = (moment) =>
  `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// 07:57:11.969; 19 Nov 07:57 where it is not today, with its year where it is not this one.
export function showTime(moment, { milliseconds = true } = {}) {
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  const exact = milliseconds ? `${clock}.${three(moment.getMilliseconds())}` : clock;
  const today = new Date(serverNow());
  if (day(moment) === day(today)) return exact;
  if (milliseconds) return `${day(moment)} ${exact}`;
  if (moment.getFullYear() !== today.getFullYear()) return day(moment);
  return `${moment.getDate()} ${MONTHS[moment.getMonth()]} ${clock.slice(0, 5)}`;
}

export function showAge(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  for (const [size, unit, small, smallUnit] of [
    [86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"],
  ]) {
    if (seconds < size) continue;
    const rest = unit === "min" && seconds >= 600 ? 0 : Math.floor((seconds % size) / small);
    const whole = `${Math.floor(seconds / size)}\u00a0${unit}`;
    return rest ? `${whole}\u00a0${rest}\u00a0${smallUnit}` : whole;
  }
  return `${seconds}\u00a0s`;
}

// Forms that count on by themselves: "41 s ago", and "41 s" since then.
const COUNTED = ["ago", "age"];

function refresh(element) {
  const moment = new Date(element.getAttribute("datetime"));
  if (Number.isNaN(moment.getTime())) return;
  const form = element.dataset.time;
  const age = COUNTED.includes(form) ? showAge(serverNow() - moment) : "";
  const text = age
    ? `${age}${form === "ago" ? " ago" : ""}`
    : showTime(moment, { milliseconds: form === "clock" });
  if (element.textContent !== text) element.textContent = text;
}

export function refreshTimes(root = document) {
  for (const element of root.querySelectorAll?.("time[data-time]") ?? []) refresh(element);
}

// What the tooltip says of a time: UTC to the millisecond, then how long ago.
export function otherForm(element) {
  const moment = new Date(element.getAttribute("datetime"));
  if (Number.isNaN(moment.getTime())) return "";
  const utc = `${moment.toISOString().replace("T", " ").replace("Z", "")} UTC`;
  return element.dataset.time === "ago" ? utc : `${utc}, ${showAge(serverNow() - moment)} ago`;
}

export function startTimes() {
  refreshTimes();
  setInterval(() => {
    const counted = COUNTED.map((form) => `time[data-time="${form}"]`).join();
    for (const element of document.querySelectorAll(counted)) refresh(element);
  }, 1000);
}
