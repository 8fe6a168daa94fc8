// Search in a list: what does not have the words in its name is hidden, never unchosen.

export function startFilter(place, entries, after = () => {}) {
  const bar = place.querySelector("[data-list-bar]");
  const field = place.querySelector("[data-filter]");
  if (!bar || !field) return;
  bar.hidden = false;
  const apply = () => {
    const words = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const entry of entries()) {
      const name = entry.dataset.name.toLowerCase();
      entry.hidden = !words.every((word) => name.includes(word));
      if (!entry.hidden) shown += 1;
    }
    after(shown);
  };
  field.addEventListener("input", apply);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && field.value) {
      field.value = "";
      apply();
      event.stopPropagation();
    }
    // Enter would send the form; here it leads into the list.
    if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      const first = [...entries()].find((entry) => !entry.hidden);
      (first?.matches("button") ? first : first?.querySelector("input:enabled"))?.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog[open]");
    if (event.key !== "f" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  return { clear: () => { field.value = ""; apply(); field.focus(); } };
}
