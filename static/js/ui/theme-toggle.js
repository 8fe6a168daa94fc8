// Light or dark: the system's, until one is chosen here.

const dark = matchMedia("(prefers-color-scheme: dark)");

function current() {
  return document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
}

function mark() {
  for (const button of document.querySelectorAll("[data-theme-toggle]")) {
    const words = current() === "dark" ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", words);
    button.dataset.tip = words;
  }
}

export function startTheme() {
  mark();
  dark.addEventListener("change", mark);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    const chosen = current() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    try { localStorage.setItem("theme", chosen); } catch { /* kept for this page alone */ }
    mark();
  });
}
