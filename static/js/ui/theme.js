// Runs before the first paint: the theme chosen on this machine, else the system's.
(() => {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is closed to us: the system's theme it is */ }
})();
