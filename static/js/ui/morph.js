// hx-ext="morph": a new version of a part changes only the nodes that differ, so that focus, text
// selection, open menus and scroll positions stay. Children are matched by id, else by place.

function same(before, after) {
  return before.nodeType === after.nodeType && before.nodeName === after.nodeName &&
    (before.id ?? "") === (after.id ?? "");
}

function morphAttributes(before, after) {
  for (const { name } of [...before.attributes]) {
    const ours = name === "open" || (name === "aria-describedby" && before.getAttribute(name) === "tip");
    if (!after.hasAttribute(name) && !ours) before.removeAttribute(name);
  }
  for (const { name, value } of after.attributes) {
    if (before.getAttribute(name) !== value) before.setAttribute(name, value);
  }
}

function morphNode(before, after) {
  if (before.nodeType !== Node.ELEMENT_NODE) {
    if (before.nodeValue !== after.nodeValue) before.nodeValue = after.nodeValue;
    return;
  }
  if (before.classList.contains("copied")) return;
  // The same part as before: what somebody typed or opened in it stays.
  if (before.dataset.keep && before.dataset.keep === after.dataset.keep) return;
  // A time's text is the browser's; it changes with the moment it stands for.
  const sameMoment = before.nodeName === "TIME" &&
    before.getAttribute("datetime") === after.getAttribute("datetime");
  morphAttributes(before, after);
  if (!sameMoment) morphChildren(before, after);
}

export function morphChildren(parent, source) {
  let here = parent.firstChild;
  for (const after of [...source.childNodes]) {
    let match = here;
    if (!match || !same(match, after)) {
      match = after.id
        ? [...parent.children].find((child) => same(child, after)) ?? null
        : null;
    }
    if (!match) {
      parent.insertBefore(after, here);
      continue;
    }
    if (match === here) here = here.nextSibling;
    else parent.insertBefore(match, here);
    morphNode(match, after);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

window.htmx?.defineExtension("morph", {
  isInlineSwap: () => false,
  handleSwap: (style, target, fragment) => {
    if (style !== "innerHTML") return false;
    morphChildren(target, fragment);
    return [target];
  },
});
