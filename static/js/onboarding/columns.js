// The columns: search among the tables at the left.

import { startFilter } from "./list.js";

export function startColumns() {
  const place = document.querySelector("[data-columns]");
  if (!place) return;
  startFilter(place, () => place.querySelectorAll(".ob-entries > .ob-entry"));
  place.querySelector(".ob-entries > [aria-current]")?.scrollIntoView({ block: "nearest" });
}
