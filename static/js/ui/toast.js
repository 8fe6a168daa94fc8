// One toast at a time, for what the user just did. It stays 4 s, and while it has the focus.

import { icon } from "./icon.js";

const STAYS_MS = 4000;
let timer = 0;

export function toast(text, { symbol = "check", action = "", onAction = null } = {}) {
  const place = document.getElementById("toasts");
  if (!place) return;
  clearTimeout(timer);
  const box = document.createElement("div");
  box.className = "toast";
  const words = document.createElement("span");
  words.textContent = text;
  box.append(icon(symbol, 14), words);
  if (action) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = action;
    button.addEventListener("click", () => { place.replaceChildren(); onAction?.(); });
    box.append(button);
  }
  place.replaceChildren(box);
  const leave = () => {
    timer = setTimeout(() => {
      if (box.contains(document.activeElement) || box.matches(":hover")) leave();
      else box.remove();
    }, STAYS_MS);
  };
  leave();
}
