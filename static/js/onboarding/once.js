// A form is sent once; while the source is asked, its button says so.

import { announce } from "../ui/shell.js";

function busy(button) {
  if (!button?.dataset.busy) return;
  button.dataset.words = button.textContent;
  button.setAttribute("aria-busy", "true");
  button.textContent = button.dataset.busy;
  announce(button.dataset.busy);
}

function idle() {
  for (const button of document.querySelectorAll("[aria-busy][data-words]")) {
    button.removeAttribute("aria-busy");
    button.textContent = button.dataset.words;
  }
  for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent;
}

export function startOnce() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-once]");
    if (!form || event.defaultPrevented) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    busy(event.submitter);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-busy]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) busy(link);
  });
  // Back from the next page: the form is as it was, and may be sent again.
  window.addEventListener("pageshow", (event) => { if (event.persisted) idle(); });
}
