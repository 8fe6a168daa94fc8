// The find page works without this: with it a chosen table offers its columns at once, empty fields
// stay out of the address, and j, k and the arrows go from line to line.

const form = document.getElementById("find-form");
const table = form?.querySelector("[data-table]");

// The columns of the table that was chosen are offered beside the condition.
table?.addEventListener("change", async () => {
  const offered = document.getElementById("find-columns");
  const query = new URLSearchParams({ slot: form.elements.slot.value, table: table.value });
  const answer = await fetch(`${form.dataset.columns}?${query}`).catch(() => null);
  if (!answer?.ok) return;
  const { columns } = await answer.json();
  offered.replaceChildren(...columns.map(([name, type]) => new Option(type, `${name} `)));
});

// What is empty does not stand in the address.
form?.addEventListener("submit", () => {
  for (const input of form.querySelectorAll("input[name]")) input.disabled = !input.value.trim();
});
addEventListener("pageshow", () => {
  for (const input of form?.querySelectorAll("input[name]") ?? []) input.disabled = false;
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const lines = [...document.querySelectorAll(".found > summary")];
  const now = lines.indexOf(document.activeElement?.closest(".found > summary"));
  if (now < 0 && event.key.startsWith("Arrow")) return;
  const next = lines[Math.min(Math.max(now + step, 0), lines.length - 1)];
  next?.focus();
  event.preventDefault();
});
