// The tables: all or a schema at once, a stretch with Shift, up and down with the arrows.

import { startFilter } from "./list.js";

export function startTables() {
  const place = document.querySelector("[data-tables]");
  const list = place?.querySelector(".ob-list");
  if (!list) return;
  const rows = [...list.querySelectorAll("tbody tr")];
  const box = (row) => row.querySelector("input");
  const shown = () => rows.filter((row) => !row.hidden && !box(row).disabled);
  const none = place.querySelector("[data-none]");
  const filter = startFilter(place, () => rows, (count) => { none.hidden = count > 0; show(); });
  place.querySelector("[data-clear]").addEventListener("click", () => filter.clear());

  const toggles = [...place.querySelectorAll("[data-schema-toggle]")];
  const of = (toggle) => {
    const schema = toggle.dataset.schemaToggle;
    return shown().filter((row) => !schema || row.dataset.schema === schema);
  };

  function show() {
    for (const toggle of toggles) {
      const mine = of(toggle);
      const chosen = mine.filter((row) => box(row).checked).length;
      toggle.checked = chosen > 0 && chosen === mine.length;
      toggle.indeterminate = chosen > 0 && chosen < mine.length;
      toggle.disabled = mine.length === 0;
    }
    const chosen = rows.filter((row) => box(row).checked);
    const keyless = chosen.filter((row) => "keyless" in row.dataset).length;
    const words = `${chosen.length} of ${rows.length} table${rows.length === 1 ? "" : "s"} chosen`;
    place.querySelector("[data-summary]").textContent = keyless ? `${words}, ${keyless} with inserts only` : words;
  }

  for (const toggle of toggles) {
    toggle.addEventListener("change", () => {
      for (const row of of(toggle)) box(row).checked = toggle.checked;
      show();
    });
  }

  let last = null;
  list.addEventListener("click", (event) => {
    const row = event.target.closest("tbody tr");
    if (!row || box(row).disabled) return;
    const own = event.target === box(row);
    // A click on the label reaches the box as a click of its own.
    if (!own && event.target.closest("label")) return;
    if (!own) { box(row).checked = !box(row).checked; box(row).focus(); }
    if (event.shiftKey && last && last !== row) {
      const between = shown();
      const [a, b] = [between.indexOf(last), between.indexOf(row)].sort((one, two) => one - two);
      for (const each of between.slice(Math.max(a, 0), b + 1)) box(each).checked = box(row).checked;
    }
    last = row;
    show();
  });

  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = shown();
    const at = all.indexOf(event.target.closest("tr"));
    if (at < 0) return;
    event.preventDefault();
    box(all[Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), all.length - 1)]).focus();
  });

  // One field for all of them: a form has at most a thousand.
  place.closest("form").addEventListener("formdata", (event) => {
    const names = event.formData.getAll("table");
    event.formData.delete("table");
    event.formData.set("tables", names.join("\n"));
  });
  show();
}
