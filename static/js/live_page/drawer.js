// The drawer beside the list: one transaction's changes, from the server, a page at a time.

import "../ui/changes/main.js";
import { copyLink } from "../ui/changes/links.js";
import { announce, refreshTimes } from "../ui/shell.js";
import { wireGrip } from "../ui/grip.js";
import { el, find, fragment } from "../ui/dom.js";
import { Filters } from "./filters.js";
import { delay } from "../ui/words.js";

const address = (id) => find("live").dataset.transactions.replace("/0/", `/${id}/`);

export class Drawer {
  // on: {closed(), step(by), latency(id)}
  constructor(on) {
    this.on = on;
    this.id = null;
    this.box = find("drawer");
    this.inside = find("drawer-inside");
    this.box.addEventListener("click", (event) => this.clicked(event));
    wireGrip(find("grip"), this.box);
  }

  get isOpen() { return this.id !== null; }

  async open(id, { again = false } = {}) {
    if (this.id === id && !again) return;
    const first = this.id === null;
    this.id = id;
    Filters.write({ tx: id });
    document.body.classList.add("with-drawer");
    this.box.hidden = false;
    if (first) this.inside.replaceChildren(skeleton());
    this.asked?.abort();
    this.asked = new AbortController();
    try {
      const answer = await fetch(`${address(id)}drawer/`, { signal: this.asked.signal });
      if (answer.redirected) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const scrolled = again ? this.inside.querySelector(".drawer-body")?.scrollTop ?? 0 : 0;
      this.inside.replaceChildren(fragment(await answer.text()));
      this.inside.querySelector(".drawer-body").scrollTop = scrolled;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.inside.replaceChildren(failed(error.message, () => this.open(id, { again: true })));
    }
    refreshTimes(this.inside);
    this.showLatency();
    if (!again) announce(this.inside.querySelector(".drawer-sentence")?.textContent ?? "");
  }

  showLatency() {
    const place = this.inside.querySelector("[data-screen] span");
    const latency = this.on.latency(this.id);
    if (latency === null) return;
    if (place) place.textContent = `+${delay(latency)}`;
    const brief = this.inside.querySelector("[data-screen-brief]");
    if (brief) brief.textContent = ` · on screen after ${delay(latency)}`;
  }

  // Its transaction went on or ended: show it anew, at the same place.
  refresh(id) { if (this.id === id) this.open(id, { again: true }); }

  close() {
    if (!this.isOpen) return;
    this.asked?.abort();
    this.id = null;
    Filters.write({ tx: "" });
    document.body.classList.remove("with-drawer");
    this.box.hidden = true;
    this.box.classList.remove("tall");
    this.inside.replaceChildren();
    this.on.closed();
  }

  clicked(event) {
    if (event.target.closest("[data-close-drawer]")) this.close();
    const step = event.target.closest("[data-step]");
    if (step) this.on.step(Number(step.dataset.step));
    if (event.target.closest("[data-copy-link]")) copyLink(new URL(address(this.id), location.href).href);
  }
}

function skeleton() {
  const holder = el("div", "loading drawer-loading");
  for (let bar = 0; bar < 6; bar += 1) holder.append(el("i"));
  return holder;
}

function failed(code, again) {
  const holder = el("div", "empty");
  const gone = code === "404";
  holder.append(
    el("h2", "", gone ? "This transaction is gone" : "Not loaded"),
    el("p", "", gone
      ? "It is no longer in the store: retention dropped its day, or it was received again."
      : "The server did not answer. The page on the left is unchanged."),
  );
  if (!gone) {
    const button = el("button", "btn", "Try again");
    button.type = "button";
    button.addEventListener("click", again);
    holder.append(button);
  }
  return holder;
}
