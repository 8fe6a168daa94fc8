// The style sheet's colours as plotly needs them: computed, for the theme of now.

const probe = document.createElement("span");
probe.hidden = true;

export function ink(name, alpha = 1) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const numbers = getComputedStyle(probe).color.match(/[\d.]+/g) ?? ["127", "127", "127"];
  return `rgba(${numbers.slice(0, 3).join(",")},${alpha})`;
}

// Calls back when the theme changes, by the button or by the system.
export function onTheme(changed) {
  new MutationObserver(changed).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
