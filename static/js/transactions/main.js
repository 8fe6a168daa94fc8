// The transactions page works by links and forms alone; this makes them quicker to use.

import { typing } from "../ui/keys.js";

const toolbar = document.getElementById("toolbar");
const filters = document.getElementById("filters");
const asWas = () => new URLSearchParams(new FormData(filters)).toString();
const before = asWas();

// An address names what is set, and nothing else.
function leaveOutEmpty(form) {
  for (const field of form.querySelectorAll("input[name]")) field.disabled = field.value === "";
}

for (const form of toolbar.querySelectorAll("form:not([method=post])")) {
  form.addEventListener("submit", () => leaveOutEmpty(form));
}
// The browser's back button brings the page as it was left.
addEventListener("pageshow", () => {
  for (const field of toolbar.querySelectorAll("input:disabled")) field.disabled = false;
});

// What was checked or typed in a menu holds as soon as it closes; Escape takes it back.
for (const menu of filters.querySelectorAll("details.menu")) {
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") filters.reset(); }, true);
  menu.addEventListener("toggle", () => {
    if (!menu.open && asWas() !== before) filters.requestSubmit();
  });
}

// On a phone the filters stand behind a button.
const opener = toolbar.querySelector("[data-filters]");
opener.hidden = !matchMedia("(max-width: 639px)").matches;
opener.addEventListener("click", () => {
  const shown = toolbar.classList.toggle("filters-shown");
  opener.setAttribute("aria-expanded", String(shown));
});

// A click anywhere on a row opens it, unless it meant something else.
document.addEventListener("click", (event) => {
  const row = event.target.closest(".transactions-table tr[data-tx]");
  if (!row || event.target.closest("a, button, input") || String(getSelection())) return;
  const link = row.querySelector("[data-row]");
  if (event.ctrlKey || event.metaKey) open(link.href, "_blank", "noopener");
  else link.click();
});

document.addEventListener("keydown", (event) => {
  if (typing(event) || event.defaultPrevented) return;
  if (event.key !== "f") return;
  event.preventDefault();
  toolbar.classList.add("filters-shown");
  toolbar.querySelector("[data-text]").focus();
});
document.querySelector(".transactions-table .selected")?.scrollIntoView({ block: "nearest" });
