// Rows open by click, and by key: j and k move, Enter opens, Esc closes. An open drawer moves along.

import { typing } from "../ui/keys.js";

const openers = () => [...document.querySelectorAll(".flight-list [data-open]")];

export function startSelection(drawer) {
  const open = (link) => {
    drawer.open(link.dataset.open);
    link.focus({ preventScroll: true });
  };
  const move = (by) => {
    const links = openers();
    const focused = links.indexOf(document.activeElement);
    const at = focused >= 0 ? focused : links.findIndex((link) => link.dataset.open === drawer.id);
    const next = links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)];
    if (!next) return;
    next.closest("tr").scrollIntoView({ block: "nearest" });
    next.focus({ preventScroll: true });
    if (drawer.isOpen) drawer.open(next.dataset.open);
  };

  document.addEventListener("click", (event) => {
    const step = event.target.closest("[data-step]");
    if (step) { move(Number(step.dataset.step)); return; }
    const link = event.target.closest("[data-open]");
    if (link) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(openers().find((one) => one.dataset.open === link.dataset.open) ?? link);
      return;
    }
    const row = event.target.closest(".flight-list tr[data-tx]");
    if (!row || event.target.closest("button, a") || String(getSelection())) return;
    const first = document.getElementById(`open-${row.dataset.tx}`);
    if (first) open(first);
  });

  document.addEventListener("keydown", (event) => {
    if (typing(event) || event.defaultPrevented || event.target.closest?.(".menu[open]")) return;
    const inRow = event.target.closest?.(".flight-list [data-open]") || event.target === document.body;
    if (event.key === "j" || (event.key === "ArrowDown" && inRow)) move(1);
    else if (event.key === "k" || (event.key === "ArrowUp" && inRow)) move(-1);
    else if (event.key === "Escape" && drawer.isOpen) drawer.close();
    else if (event.key === "f") { document.getElementById("text").focus(); document.getElementById("text").select(); }
    else return;
    event.preventDefault();
  });
}
