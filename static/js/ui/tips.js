// One tooltip for the page: data-tip, and the other form of a time. Shown on hover and on focus.

import { otherForm } from "./times.js";

const WAITS_MS = 300;
const tip = document.createElement("div");
tip.className = "tip";
tip.id = "tip";
tip.setAttribute("role", "tooltip");
let owner = null;
let timer = 0;

function wordsOf(element) {
  if (element.matches("time[data-time]")) return otherForm(element);
  if (element.dataset.tipNarrow) {
    return document.querySelector(".nav")?.clientWidth < 100 ? element.dataset.tipNarrow : "";
  }
  return element.dataset.tip;
}

function show(element) {
  const words = wordsOf(element);
  // What was pointed at may have been drawn anew meanwhile: then there is no place to show it.
  if (!words || !element.isConnected || !element.getClientRects().length) return;
  owner = element;
  tip.textContent = words;
  document.body.append(tip);
  element.setAttribute("aria-describedby", "tip");
  const at = element.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), innerWidth - box.width - 8);
  const above = at.top - box.height - 6;
  tip.style.transform = `translate(${left}px, ${above > 8 ? above : at.bottom + 6}px)`;
}

function hide() {
  clearTimeout(timer);
  owner?.removeAttribute("aria-describedby");
  owner = null;
  tip.remove();
}

const target = (event) =>
  event.target.closest?.("[data-tip], [data-tip-narrow], time[data-time]") ?? null;

export function startTips() {
  document.addEventListener("pointerover", (event) => {
    const element = target(event);
    if (element === owner) return;
    hide();
    if (element) timer = setTimeout(() => show(element), WAITS_MS);
  });
  document.addEventListener("focusin", (event) => {
    hide();
    // A row that has the focus shows its gid whole.
    const gid = event.target.matches?.(".row") ? event.target.querySelector(".gid") : null;
    const element = gid ?? target(event);
    if (gid ? event.target.matches(":focus-visible") && gid.scrollWidth > gid.clientWidth
      : element?.matches(":focus-visible, :focus-within")) show(element);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("pointerdown", hide);
  document.addEventListener("click", hide, true);
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}
