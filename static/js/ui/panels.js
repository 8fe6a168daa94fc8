// Menus close on Escape and on a click outside; dialogs open by data-dialog and close by data-close.

export function startPanels() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target) || event.target.closest("a.menu-item")) menu.open = false;
    }
    const opener = event.target.closest("[data-dialog]");
    if (opener) openDialog(opener.dataset.dialog);
    const dialog = event.target.closest("dialog");
    if (dialog && (event.target === dialog || event.target.closest("[data-close]"))) dialog.close();
    if (event.target.closest("[data-search-open]")) openSearch();
  });
  document.addEventListener("keydown", (event) => {
    const menu = document.activeElement?.closest?.("details.menu[open]");
    if (!menu) return;
    if (event.key === "Escape") {
      menu.open = false;
      menu.querySelector("summary").focus();
      event.stopPropagation();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      step(menu, event.key === "ArrowDown" ? 1 : -1);
    }
  });
  document.addEventListener("focusout", (event) => {
    const menu = event.target.closest?.("details.menu[open]");
    if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
    if (event.target.matches("[data-search]")) {
      event.target.closest(".head")?.classList.remove("searching");
    }
  });
}

function step(menu, by) {
  const items = [...menu.querySelectorAll(".menu-item, .menu-list input, .menu-list button")];
  const at = items.indexOf(document.activeElement);
  items[(at + by + items.length) % items.length]?.focus();
}

export function openDialog(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) dialog.showModal();
}

// On a phone the search takes the header's place until it loses the focus.
export function openSearch() {
  const field = document.querySelector("[data-search]");
  field?.closest(".head")?.classList.add("searching");
  field?.focus();
  field?.select();
}
