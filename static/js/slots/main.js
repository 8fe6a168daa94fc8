// A slot's page: the menu of kinds stands low on the page, and is brought into view when opened.

document.addEventListener("toggle", (event) => {
  if (event.target.id !== "kinds" || !event.target.open) return;
  event.target.querySelector(".menu-list")?.scrollIntoView({ block: "nearest" });
}, true);
