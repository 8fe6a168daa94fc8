// Small pieces of DOM. Values of the source come in by textContent alone, never as markup.

export { icon } from "./icon.js";

export const find = (id) => document.getElementById(id);

export function el(tag, className = "", text = undefined) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A server-rendered fragment: escaped there, parsed apart (no script runs), then taken over.
export function fragment(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const made = document.createDocumentFragment();
  made.append(...[...parsed.body.childNodes].map((node) => document.adoptNode(node)));
  return made;
}

export const setIcon = (svg, name) => svg.querySelector("use").setAttribute("href", `#i-${name}`);
