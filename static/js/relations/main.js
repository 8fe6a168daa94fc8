// Relations: what links cannot do by themselves.

// "Compare two" leads to the menus; the first of them opens.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-compare]")) return;
  const menu = document.getElementById("from-menu") ?? document.getElementById("to-menu");
  if (!menu) return;
  event.preventDefault();
  document.getElementById("compare")?.scrollIntoView({ block: "nearest" });
  // After this click has reached the menus, which close on one outside.
  setTimeout(() => {
    menu.open = true;
    menu.querySelector(".menu-item")?.focus();
  });
});
