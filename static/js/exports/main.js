// The slice's sentence: what is edited is applied at once; without scripts a button does it.

import "../ui/shell.js";

const form = document.getElementById("slice");

// Empty words have no place in an address.
function apply() {
  const words = new URLSearchParams();
  for (const [name, word] of new FormData(form)) if (word) words.append(name, word);
  const tables = words.getAll("tables");
  words.delete("tables");
  if (tables.length) words.set("tables", tables.join(","));
  const query = words.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
  location.assign(`${form.action}?${query}`);
}

if (form) {
  form.querySelector(".slice-apply").hidden = true;
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  form.addEventListener("change", (event) => {
    // Several tables are chosen before they are applied; a name says nothing without its box.
    if (event.target.name === "tables") return;
    apply();
  });
}
