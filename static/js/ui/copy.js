// Copy on click, Enter or c: everything with data-copy. It says "copied" for 1 s in its own width.

import { announce } from "./announce.js";
import { toast } from "./toast.js";

const SAYS_MS = 1000;

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Without TLS there is no clipboard API; a selected text field still copies.
function copyBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus?.();
  return done;
}

async function copyFrom(element) {
  const text = element.dataset.copy;
  if (!(await copyText(text))) {
    toast("The browser does not let this page copy.", { symbol: "close" });
    return;
  }
  announce("copied");
  if (element.classList.contains("copy")) sayCopied(element);
  else toast("Copied", { symbol: "copy" });
}

function sayCopied(element) {
  if (element.classList.contains("copied")) return;
  const before = [...element.childNodes];
  const width = element.getBoundingClientRect().width;
  element.style.setProperty("min-width", `${width}px`);
  element.style.setProperty("max-width", `${width}px`);
  element.style.setProperty("overflow", "hidden");
  element.classList.add("copied");
  element.replaceChildren("copied");
  setTimeout(() => {
    element.replaceChildren(...before);
    element.classList.remove("copied");
    for (const name of ["min-width", "max-width", "overflow"]) element.style.removeProperty(name);
  }, SAYS_MS);
}

export function startCopying() {
  document.addEventListener("click", (event) => {
    const element = event.target.closest("[data-copy]");
    if (!element) return;
    event.preventDefault();
    event.stopPropagation();
    copyFrom(element);
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "c" || event.ctrlKey || event.metaKey || event.altKey) return;
    const element = document.activeElement?.closest?.("[data-copy]");
    if (element) copyFrom(element);
  });
}
