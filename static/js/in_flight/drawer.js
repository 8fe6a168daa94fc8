// The drawer: one transaction. What is known of it is renewed with the page; the changes received so
// far are loaded once and stay where they are, with more on demand.

import "../ui/changes/main.js";
import { copyLink } from "../ui/changes/links.js";
import { announce, refreshTimes } from "../ui/shell.js";
import { el, fragment } from "../ui/dom.js";
import { wireGrip } from "../ui/grip.js";
import { writeAddress } from "./filters.js";

export class Drawer {
  constructor(address) {
    this.address = address;
    this.box = document.getElementById("drawer");
    this.inside = document.getElementById("drawer-inside");
    this.side = document.getElementById("side");
    this.id = this.box.hidden ? null : new URLSearchParams(location.search).get("tx");
    this.onChange = () => {};
    wireGrip(document.getElementById("grip"), this.box);
    this.box.addEventListener("click", (event) => this.clicked(event));
    this.offerMore();
  }

  get isOpen() { return this.id !== null; }

  async open(id) {
    if (this.id === id) return;
    const first = this.id === null;
    this.id = id;
    writeAddress({ tx: id });
    this.show(true);
    if (first) this.inside.replaceChildren(skeleton());
    this.asked?.abort();
    this.asked = new AbortController();
    try {
      const answer = await fetch(`${this.address.replace("/0/", `/${id}/`)}${location.search}`, { signal: this.asked.signal });
      if (answer.redirected) { location.reload(); return; }
      this.inside.replaceChildren(answer.ok ? fragment(await answer.text()) : failed(answer.status));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.inside.replaceChildren(failed(0));
    }
    refreshTimes(this.inside);
    this.offerMore();
    if (first) this.box.querySelector(".flight-body")?.scrollTo(0, 0);
    announce(this.inside.querySelector("#drawer-title")?.textContent.trim() ?? "");
    this.onChange();
  }

  close() {
    if (this.id === null) return;
    const id = this.id;
    this.id = null;
    this.asked?.abort();
    writeAddress({ tx: "" });
    this.show(false);
    this.inside.replaceChildren();
    document.getElementById(`open-${id}`)?.focus({ preventScroll: true });
    this.onChange();
  }

  show(open) {
    document.body.classList.toggle("with-drawer", open);
    this.box.hidden = !open;
    this.side.hidden = open;
    for (const row of document.querySelectorAll("tr[data-tx]")) {
      row.classList.toggle("selected", open && row.dataset.tx === this.id);
    }
  }

  clicked(event) {
    if (event.target.closest("[data-close-drawer]")) { event.preventDefault(); this.close(); }
    if (event.target.closest("[data-copy-link]")) copyLink(location.href);
  }

  // It was received again under another number: that one is shown. It has ended: its changes are told
  // in another way. It has grown: there is more to load.
  renewed(fresh) {
    const facts = this.inside.querySelector('[data-region="facts"]');
    const told = fresh.querySelector('[data-region="facts"]');
    if (facts && told && facts.dataset.tx === this.id && told.dataset.tx !== this.id) {
      this.open(told.dataset.tx);
      return;
    }
    if (facts?.dataset.was && facts.dataset.was !== facts.dataset.state) {
      delete facts.dataset.was;
      announce(`${this.inside.querySelector("#drawer-title")?.textContent.trim()}: ${facts.dataset.state}`);
    }
    this.offerMore();
  }

  offerMore() {
    const changes = this.inside.querySelector(".flight-changes");
    if (!changes || changes.querySelector("[data-more]")) return;
    const counted = Number(this.inside.querySelector("[data-received]")?.dataset.received ?? 0);
    const blocks = changes.querySelectorAll(".change");
    const last = Number(blocks[blocks.length - 1]?.dataset.seq ?? 0);
    if (counted <= last) return;
    changes.querySelector(".none")?.remove();
    const more = el("button", "btn load-more", "Load more");
    more.type = "button";
    more.dataset.more = `${changes.dataset.after}?after=${last}`;
    changes.append(more);
  }
}

function skeleton() {
  const holder = el("div", "loading drawer-loading");
  for (let bar = 0; bar < 8; bar += 1) holder.append(el("i"));
  return holder;
}

function failed(status) {
  const holder = el("div", "empty");
  const gone = status === 404;
  holder.append(
    el("h2", "", gone ? "This transaction is gone" : "Not loaded"),
    el("p", "", gone
      ? "It is no longer in the store: retention dropped its day, or it was received again."
      : "The server did not answer. The page on the left is unchanged."),
  );
  return holder;
}
