// The text filter renews the list while one types; the others are links. All are in the address.

const TYPING_MS = 250;

export function writeAddress(changes) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  address.search = address.searchParams.toString().replaceAll("%2F", "/");
  history.replaceState(history.state, "", address);
  keepLinks(changes);
}

// Menus and "show more" lead to the same page with one filter changed: they keep what was typed.
function keepLinks(changes) {
  for (const link of document.querySelectorAll(".flight-toolbar a.menu-item")) {
    const address = new URL(link.href);
    for (const [name, value] of Object.entries(changes)) {
      if (name === "tx" && !value) address.searchParams.delete(name);
      else if (name === "q") {
        if (value) address.searchParams.set(name, value);
        else address.searchParams.delete(name);
      }
    }
    link.href = address.href;
  }
}

export function startFilters(renew) {
  const text = document.getElementById("text");
  const field = document.getElementById("text-field");
  let typing = 0;
  const apply = () => {
    clearTimeout(typing);
    writeAddress({ q: text.value.trim(), rows: "" });
    field.classList.toggle("set", text.value.trim() !== "");
    renew();
  };
  text.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(apply, TYPING_MS); });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !text.value) return;
    text.value = "";
    apply();
    event.stopPropagation();
  });
  document.getElementById("filters").addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
}
