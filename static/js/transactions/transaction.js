// A transaction's page: the diff switched in place, its link, the undo of the whole of it. All of it
// works by links alone; this saves the reload.

import "../ui/changes/main.js";
import { copyLink } from "../ui/changes/links.js";
import { toast } from "../ui/toast.js";

const changes = document.getElementById("changes");
const link = document.querySelector("[data-copy-link]");
link.hidden = false;
link.addEventListener("click", () => copyLink(location.href));

// Side by side or inline: a class, and the address.
for (const choice of document.querySelectorAll("[data-diff]")) {
  choice.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const inline = choice.dataset.diff === "inline";
    changes.classList.toggle("diff-inline", inline);
    for (const other of document.querySelectorAll("[data-diff]")) {
      if (other === choice) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    keepInLinks(inline);
    history.replaceState(null, "", choice.href);
  });
}

// Every link of the page to the page keeps the choice.
function keepInLinks(inline) {
  for (const other of document.querySelectorAll('.main a[href^="?"]:not([data-diff])')) {
    const words = new URLSearchParams(other.getAttribute("href"));
    if (inline) words.set("diff", "inline");
    else words.delete("diff");
    other.setAttribute("href", `?${words}`);
  }
  const form = document.querySelector(".transaction-toolbar");
  form.querySelector('[name="diff"]')?.remove();
  if (!inline) return;
  const word = document.createElement("input");
  Object.assign(word, { type: "hidden", name: "diff", value: "inline" });
  form.prepend(word);
}

for (const button of document.querySelectorAll('[role="button"][href]')) {
  button.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    button.click();
  });
}

const undo = document.querySelector("[data-undo-all]");
const dialog = document.getElementById("undo-dialog");
undo?.addEventListener("click", async (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  try {
    const answer = await fetch(undo.href);
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok && answer.status !== 409) throw new Error(String(answer.status));
    showUndo(await answer.text(), answer.ok);
  } catch {
    toast("The server did not answer. Try again.", { symbol: "close" });
  }
});
dialog.querySelector("[data-close-undo]").addEventListener("click", () => dialog.close());

function showUndo(text, possible) {
  dialog.querySelector("pre").textContent = text;
  const copy = dialog.querySelector("[data-copy]");
  copy.dataset.copy = text;
  copy.hidden = !possible;
  document.getElementById("undo-words").textContent = possible
    ? "replview does not run this. Review it, then run it on the source."
    : "It cannot be undone as a whole. Each change shows whether it can be undone.";
  dialog.showModal();
}
