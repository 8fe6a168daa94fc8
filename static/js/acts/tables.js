// Narrows the list of tables while one types; the form's own search works without it.

const search = document.querySelector("[data-filter-tables]");

if (search !== null) {
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const row of document.querySelectorAll("[data-table]")) {
      const chosen = row.querySelector("input:checked") !== null;
      row.hidden = !chosen && !row.dataset.table.toLowerCase().includes(wanted);
    }
  });
}
