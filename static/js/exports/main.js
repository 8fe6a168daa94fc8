// The fields of an export or a history job: when one changes, the page is read anew and what differs
// is put in place, so that the sentence, the figures and the address follow. Without scripts a button
// does it.

import "../ui/shell.js";
import { morphChildren } from "../ui/morph.js";
import { refreshTimes } from "../ui/times.js";

const form = () => document.getElementById("slice");
let asking = null;

// Empty words have no place in an address.
function address() {
  const words = new URLSearchParams();
  for (const [name, word] of new FormData(form())) if (word) words.append(name, word);
  const tables = words.getAll("tables");
  words.delete("tables");
  if (tables.length) words.set("tables", tables.join(","));
  const query = words.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
  return `${form().action}?${query}`;
}

async function apply(changed) {
  const url = address();
  // The header follows the slot: that takes the whole page.
  if (changed?.name === "slot") { location.assign(url); return; }
  asking?.abort();
  const mine = (asking = new AbortController());
  document.getElementById("slice-summary").setAttribute("aria-busy", "true");
  try {
    const response = await fetch(url, { signal: mine.signal, headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) throw new Error(String(response.status));
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    history.pushState({}, "", url);
  } catch (error) {
    if (error.name !== "AbortError") location.assign(url);
  }
}

function show(fresh) {
  const main = document.getElementById("main");
  const values = new Map([...fresh.getElementById("slice").elements].map((field) => [field.id, field.value]));
  morphChildren(main, fresh.getElementById("main"));
  // What somebody types just now stays; other fields may have been filled in.
  for (const field of form().elements) {
    const writable = field.id && field.type !== "checkbox" && field !== document.activeElement;
    if (writable && values.has(field.id)) field.value = values.get(field.id);
  }
  refreshTimes(main);
}

// What is exported or run is what the fields say, read anew or not.
function take(sent) {
  for (const input of sent.querySelectorAll("input[type=hidden]:not([name=csrfmiddlewaretoken])")) input.remove();
  for (const [name, value] of new FormData(form())) {
    const input = document.createElement("input");
    Object.assign(input, { type: "hidden", name, value });
    sent.append(input);
  }
}

if (form()) {
  const main = document.getElementById("main");
  main.addEventListener("submit", (event) => {
    if (event.target === form()) { event.preventDefault(); apply(); }
    if ("slice" in event.target.dataset) { asking?.abort(); take(event.target); }
  });
  main.addEventListener("change", (event) => {
    if (event.target.form === form()) apply(event.target);
  });
  main.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.form !== form() || !event.target.matches("input:not([type=checkbox])")) return;
    event.preventDefault();
    apply();
  });
  addEventListener("popstate", () => location.reload());
}
