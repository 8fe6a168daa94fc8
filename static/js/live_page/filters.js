// The toolbar's filters and the page's address: each always says what the other says.

import { el, find } from "../ui/dom.js";

const ALL = "IUDTM";
const WORDS = ["tables", "ops", "actor", "origin", "states", "q"];
const OPEN = ["open", "receiving", "streaming", "prepared"];
const TYPING_MS = 250;

export class Filters {
  constructor(onChange) {
    this.onChange = onChange;
    this.values = this.fromAddress();
    this.seen = { actor: new Set(), origin: new Set() };
    this.menus = Object.fromEntries([...document.querySelectorAll("[data-filter]")]
      .map((menu) => [menu.dataset.filter, menu]));
    for (const [name, menu] of Object.entries(this.menus)) this.wire(name, menu);
    for (const button of document.querySelectorAll("[data-op]")) {
      button.addEventListener("click", (event) => this.pressOperation(button.dataset.op, event));
    }
    find("text").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.set("q", find("text").value.trim()), TYPING_MS);
    });
    find("text").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && find("text").value) { find("text").value = ""; this.set("q", ""); }
    });
    find("filters-open").addEventListener("click", () => {
      const open = find("toolbar").classList.toggle("filters-shown");
      find("filters-open").setAttribute("aria-expanded", String(open));
    });
    this.show();
  }

  fromAddress() {
    const query = new URLSearchParams(location.search);
    return Object.fromEntries(WORDS.map((word) => [word, query.get(word) ?? ""]));
  }

  // What is written into the address, beside the slot.
  static write(changes) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    // A comma and a slash need no escape in a query; the address stays readable.
    address.search = address.searchParams.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
    history.replaceState(history.state, "", address);
  }

  get any() { return WORDS.some((word) => this.values[word]); }

  // Some other filter than the state is set.
  get others() { return WORDS.some((word) => word !== "states" && this.values[word]); }

  // Nothing that has ended passes.
  get onlyOpen() {
    const { states } = this.values;
    return states !== "" && states.split(",").every((state) => OPEN.includes(state));
  }

  set(word, value) {
    if (this.values[word] === value) return;
    this.values[word] = value;
    Filters.write({ [word]: value });
    this.show();
    this.onChange();
  }

  reset() {
    for (const word of WORDS) this.values[word] = "";
    Filters.write(this.values);
    this.show();
    this.onChange();
  }

  // A click leaves an operation out; with Alt, or double, it leaves only that one.
  pressOperation(letter, event) {
    const now = this.values.ops || ALL;
    let next = now.includes(letter) ? now.replace(letter, "") : now + letter;
    if (event.altKey || event.detail === 2) next = letter;
    next = [...ALL].filter((one) => next.includes(one)).join("");
    this.set("ops", next === ALL || !next ? "" : next);
  }

  wire(name, menu) {
    menu.addEventListener("change", (event) => {
      if (event.target.type === "checkbox") this.set(name, this.checked(menu).join(","));
    });
    menu.querySelector("[data-all]")?.addEventListener("click", () => { this.set(name, ""); menu.open = false; });
    menu.addEventListener("click", (event) => {
      const choice = event.target.closest("[data-choice]");
      if (choice) { this.set(name, choice.dataset.choice); menu.open = false; }
    });
    menu.querySelector("[data-typed]")?.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      this.set(name, event.target.value.trim());
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }

  checked(menu) {
    return [...menu.querySelectorAll("input:checked")].map((box) => box.value);
  }

  show() {
    const { tables, ops, actor, origin, states, q } = this.values;
    this.showChecked("tables", tables, (n) => (n ? `${n}` : `all ${this.boxes("tables").length || ""}`));
    this.showChecked("states", states, (n) => (n === 1 ? states : n ? `${n}` : "any"));
    this.showChoice("actor", actor, { "": "anyone", "?": "unknown" });
    this.showChoice("origin", origin, { "": "any", "-": "none" });
    for (const button of document.querySelectorAll("[data-op]")) {
      button.setAttribute("aria-pressed", String((ops || ALL).includes(button.dataset.op)));
    }
    if (find("text") !== document.activeElement) find("text").value = q;
    find("text-field").classList.toggle("set", Boolean(q));
    const set = [tables, actor, origin, states, q].filter(Boolean).length;
    find("filters-set").hidden = !set;
    find("filters-set").textContent = String(set);
    find("filters-open").classList.toggle("is-set", set > 0);
  }

  boxes(name) { return [...this.menus[name].querySelectorAll('input[type="checkbox"]')]; }

  showChecked(name, value, word) {
    const wanted = new Set(value ? value.split(",") : []);
    // A link may name a table that this page does not offer (yet).
    for (const extra of wanted) if (!this.boxes(name).some((box) => box.value === extra)) this.offer(name, extra);
    for (const box of this.boxes(name)) box.checked = wanted.has(box.value);
    this.mark(name, wanted.size > 0, word(wanted.size));
  }

  offer(name, value) {
    this.menus[name].querySelector("[data-none]")?.remove();
    const label = el("label", "menu-item");
    const box = el("input");
    box.type = "checkbox";
    box.value = value;
    label.append(box, el("span", "mono cut", value));
    this.menus[name].querySelector(".menu-list").append(label);
  }

  showChoice(name, value, words) {
    this.menus[name].querySelector("[data-typed]").value = words[value] ? "" : value;
    this.mark(name, value !== "", words[value] ?? value);
  }

  mark(name, set, word) {
    this.menus[name].classList.toggle("set", set);
    this.menus[name].querySelector("[data-word]").textContent = word;
  }

  // Names that came by are offered in the menus.
  learn(data) {
    for (const name of ["actor", "origin"]) {
      const value = data[name];
      if (!value || this.seen[name].has(value) || this.seen[name].size > 40) continue;
      this.seen[name].add(value);
      const choice = el("button", "menu-item", value);
      choice.type = "button";
      choice.dataset.choice = value;
      this.menus[name].querySelector("[data-seen]").append(choice);
    }
    for (const table of data.tables) {
      if (this.known(table)) continue;
      this.offer("tables", table);
      this.show();
    }
  }

  known(table) {
    this.tables ??= new Set();
    if (!this.tables.size) for (const box of this.boxes("tables")) this.tables.add(box.value);
    if (this.tables.has(table)) return true;
    this.tables.add(table);
    return false;
  }
}
