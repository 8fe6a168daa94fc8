// Keys of every page: / searches, ? explains, j and k move. Pages add theirs; none works while one types.

import { openDialog, openSearch } from "./panels.js";

export function typing(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.isComposing ||
    event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]");
}

// j and k move the focus along the links that stand for rows; lists with keys of their own have none.
function moveRow(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches?.("[data-search]")) event.target.blur();
    if (typing(event)) return;
    if (event.key === "/") {
      event.preventDefault();
      openSearch();
    } else if (event.key === "?") {
      openDialog("keys");
    } else if (event.key === "j" || event.key === "k") {
      moveRow(event.key === "j" ? 1 : -1);
    }
  });
}
