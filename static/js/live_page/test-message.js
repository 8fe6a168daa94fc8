// "Send a test message": runs the statement that stands above the button, on the source.

import { toast } from "../ui/shell.js";
import { el, find } from "../ui/dom.js";

export function startTestMessage() {
  const form = find("test-message");
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form); });
}

async function send(form) {
  const button = find("test-send");
  if (button.disabled) return;
  button.disabled = true;
  find("test-trouble").hidden = true;
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: new FormData(form) });
    if (answer.redirected) { location.reload(); return; }
    const reply = answer.headers.get("content-type")?.includes("json") ? await answer.json() : null;
    if (answer.ok && reply) toast(`Test message sent at ${reply.lsn}`);
    else showTrouble(reply ?? { cause: "replview could not do it; the error is in the log of the web process" });
  } catch {
    showTrouble({ cause: "replview did not answer", before: "Try again when the page is connected." });
  }
  button.disabled = false;
}

function showTrouble({ cause, before = "", run = "", after = "" }) {
  const place = find("test-trouble");
  const sentence = cause.charAt(0).toUpperCase() + cause.slice(1).replace(/\.?$/, ".");
  place.replaceChildren(el("p", "", `Not sent. ${sentence}`));
  if (before) place.append(el("p", "second", before));
  if (run) {
    const box = el("div", "sql");
    const copy = el("button", "btn btn-small btn-quiet", "Copy");
    copy.type = "button";
    copy.dataset.copy = run;
    box.append(el("pre", "", run), copy);
    place.append(box);
  }
  if (after) place.append(el("p", "second", after));
  place.hidden = false;
}
