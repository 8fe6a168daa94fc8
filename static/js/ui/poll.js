// Elements with data-poll="seconds" get htmx's "refresh" that often, while somebody looks.
// When no answer comes, the header says since when; the page keeps what it last knew.

import { showTime } from "./times.js";

let lostAt = null;

function due(element) {
  if (document.hidden || element.matches(".htmx-request")) return;
  window.htmx?.trigger(element, "refresh");
}

function lost() {
  lostAt ??= new Date();
  for (const place of document.querySelectorAll("[data-checked]")) {
    const words = document.createElement("span");
    words.className = "danger";
    words.textContent = `no answer since ${showTime(lostAt, { milliseconds: false })}`;
    place.replaceChildren(words);
  }
}

export function startPolling() {
  for (const element of document.querySelectorAll("[data-poll]")) {
    setInterval(() => due(element), Number(element.dataset.poll) * 1000);
  }
  document.addEventListener("visibilitychange", () => {
    for (const element of document.querySelectorAll("[data-poll]")) due(element);
  });
  document.body.addEventListener("htmx:sendError", lost);
  document.body.addEventListener("htmx:responseError", lost);
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    // Signed out meanwhile: the answer is the login page, which is no part of this one.
    if (event.detail.xhr.responseURL && new URL(event.detail.xhr.responseURL).pathname.startsWith("/login")) {
      event.detail.shouldSwap = false;
      location.reload();
    }
    lostAt = null;
  });
}
