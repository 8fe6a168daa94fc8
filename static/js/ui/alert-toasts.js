// Alerts that fire or are over while one looks: one toast an alert, at most three, the rest folded
// into a number. The header's poll brings the news; this tab remembers what it was told.

import { icon } from "./icon.js";

const MOST = 3;
const STAYS_MS = { fired: 20_000, over: 8_000 };
const REMEMBERED = 200;
const KEY = "replview-alert-news";

let folded = { fired: 0, over: 0 };

function memory() {
  try {
    const known = JSON.parse(sessionStorage.getItem(KEY));
    if (known?.since) return known;
  } catch { /* not allowed, or not ours */ }
  return { since: Math.floor(Date.parse(document.documentElement.dataset.now) / 1000) || 0, told: [] };
}

function remember(known) {
  try { sessionStorage.setItem(KEY, JSON.stringify({ ...known, told: known.told.slice(-REMEMBERED) })); } catch { /* then by page */ }
}

const known = memory();

export function startAlertToasts() {
  remember(known);
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.id === "alert-news") tell(event.detail.target);
  });
}

function tell(place) {
  const news = [...place.children].filter((one) => Number(one.dataset.at) >= known.since && !known.told.includes(one.dataset.news));
  if (!news.length) return;
  known.told.push(...news.map((one) => one.dataset.news));
  remember(known);
  // The page of alerts shows them itself.
  if (location.pathname.startsWith(place.dataset.alerts)) return;
  for (const one of news) show(one.dataset, one.textContent, place.dataset.alerts);
}

function show({ news, level, url, over }, words, alerts) {
  const place = document.getElementById("alert-toasts");
  const kind = over === undefined ? "fired" : "over";
  const number = news.split("-")[0];
  const same = place.querySelector(`[data-alert="${CSS.escape(number)}"]`);
  if (!same && place.querySelectorAll("[data-alert]").length >= MOST) {
    folded[kind] += 1;
    fold(place, alerts);
    return;
  }
  const box = toast(`health-${level}`, words, url, () => leave(box));
  box.dataset.alert = number;
  if (same) same.replaceWith(box);
  else place.insertBefore(box, place.querySelector("[data-folded]"));
  stay(box, STAYS_MS[kind]);
}

// What three toasts leave untold: how many fired, how many are over.
function fold(place, alerts) {
  const parts = [];
  if (folded.fired) parts.push(`${folded.fired} more fired`);
  if (folded.over) parts.push(`${folded.over} more ${folded.over === 1 ? "is" : "are"} over`);
  const box = toast("alerts", `${parts.join(", ")}. Open the alerts`, alerts, () => leave(box));
  box.dataset.folded = "";
  const before = place.querySelector("[data-folded]");
  if (before) before.replaceWith(box);
  else place.append(box);
  stay(box, STAYS_MS.fired);
}

function toast(symbol, words, url, dismiss) {
  const box = document.createElement("div");
  box.className = "toast";
  const link = document.createElement("a");
  link.href = url;
  link.textContent = words;
  const close = document.createElement("button");
  close.type = "button";
  close.setAttribute("aria-label", "Dismiss");
  close.append(icon("close", 14));
  close.addEventListener("click", dismiss);
  box.append(icon(symbol, 14), link, close);
  return box;
}

// It does not go while one reads it.
function stay(box, ms) {
  setTimeout(() => {
    if (!box.isConnected) return;
    if (box.contains(document.activeElement) || box.matches(":hover")) stay(box, ms);
    else leave(box);
  }, ms);
}

function leave(box) {
  if ("folded" in box.dataset) folded = { fired: 0, over: 0 };
  const focused = box.contains(document.activeElement);
  const beside = box.nextElementSibling ?? box.previousElementSibling;
  box.remove();
  if (focused) (beside?.querySelector("button") ?? document.getElementById("main"))?.focus();
}
