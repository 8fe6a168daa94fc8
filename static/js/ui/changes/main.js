// What the blocks of changes do, wherever they stand: copy a value, the change as JSON or SQL, the
// SQL that takes it back; show a value whole; load more. One listener a page.

import { announce } from "../announce.js";
import { copyText } from "../copy.js";
import { fragment } from "../dom.js";
import { refreshTimes } from "../times.js";
import { toast } from "../toast.js";

const SAYS_MS = 1000;

document.addEventListener("click", (event) => {
  const target = event.target.closest?.("[data-copies], [data-copies-from], [data-refused], [data-value], [data-more]");
  if (!target) return;
  if (target.matches("[data-copies]")) {
    // Selecting a part of a value is no click on it.
    if (getSelection()?.toString()) return;
    copyValue(target);
  } else if (target.matches("[data-copies-from]")) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    copyFrom(target);
  } else if (target.matches("[data-refused]")) {
    toast(`No undo: ${target.dataset.refused}.`, { symbol: "undo" });
  } else if (target.matches("[data-value]")) showWhole(target);
  else loadMore(target);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !["Enter", "c"].includes(event.key)) return;
  const value = document.activeElement?.closest?.("[data-copies]");
  if (!value) return;
  event.preventDefault();
  event.stopPropagation();
  copyValue(value);
}, true);

async function ask(address) {
  const answer = await fetch(address, { headers: { Accept: "text/plain, text/html" } });
  if (answer.redirected) throw new Error("signed out");
  return answer;
}

async function copied(text, what) {
  if (await copyText(text)) return true;
  toast(`The browser does not let this page copy ${what}.`, { symbol: "close" });
  return false;
}

async function copyValue(element) {
  try {
    const more = element.hasAttribute("data-cut") && element.closest(".diff-before, .diff-after, .diff-same, .content")?.querySelector("[data-value]");
    const text = more ? await whole(more) : element.textContent;
    if (!(await copied(text, "the value"))) return;
    announce("copied");
    element.classList.add("copied");
    setTimeout(() => element.classList.remove("copied"), SAYS_MS);
  } catch {
    toast("The server did not answer. Try again.", { symbol: "close" });
  }
}

async function whole(button) {
  const answer = await ask(button.dataset.value);
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.text();
}

async function copyFrom(link) {
  const what = link.dataset.what;
  try {
    const answer = await ask(link.href);
    const text = await answer.text();
    if (!answer.ok) toast(answer.status === 409 ? text.trim() : "The server did not answer. Try again.", { symbol: "close" });
    else if (await copied(text, what)) toast(`Copied ${what}`, { symbol: "copy" });
  } catch {
    toast("The server did not answer. Try again.", { symbol: "close" });
  }
}

async function showWhole(button) {
  button.disabled = true;
  try {
    const text = await whole(button);
    const shown = button.parentElement.querySelector("mark, .marked");
    const made = document.createElement("mark");
    made.className = "value whole";
    made.tabIndex = 0;
    made.setAttribute("role", "button");
    made.dataset.copies = "";
    made.textContent = text;
    shown.replaceWith(made);
    button.remove();
    made.focus();
  } catch {
    button.disabled = false;
    toast("The server did not answer. Try again.", { symbol: "close" });
  }
}

async function loadMore(more) {
  more.disabled = true;
  try {
    const answer = await ask(more.dataset.more);
    if (!answer.ok) throw new Error(String(answer.status));
    const focused = document.activeElement === more;
    const next = fragment(await answer.text());
    const first = next.querySelector(".block");
    const holder = more.parentElement;
    more.replaceWith(next);
    if (focused && first) { first.tabIndex = -1; first.focus(); }
    refreshTimes(holder);
  } catch {
    more.disabled = false;
    toast("The server did not answer. Try again.", { symbol: "close" });
  }
}
