// Pointing and dragging: the crosshair of all charts, a range, and the keys of a focused chart.

import { announce } from "../ui/announce.js";
import { typing } from "../ui/keys.js";

const DRAG_PIXELS = 6;

export function startPointer(root, page) {
  let began = null;
  const plotOf = (event) => {
    const plot = event.target.closest?.(".lag-plot:not(.untimed)");
    return plot && page.axis ? plot : null;
  };
  const xIn = (plot, event) => event.clientX - plot.getBoundingClientRect().left;

  root.addEventListener("pointerdown", (event) => {
    const plot = plotOf(event);
    if (!plot || event.button !== 0) return;
    began = { plot, x: xIn(plot, event), moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (began) {
      const x = xIn(began.plot, event);
      began.moved ||= Math.abs(x - began.x) > DRAG_PIXELS;
      if (began.moved) page.select(page.axis.moment(began.x), page.axis.moment(x));
      page.pointAt(page.axis.moment(x));
      return;
    }
    const plot = plotOf(event);
    if (plot) page.pointAt(page.axis.moment(xIn(plot, event)));
    else if (page.pointed !== null && !page.keyed && event.pointerType !== "touch") page.pointAt(null);
  });
  addEventListener("pointerup", (event) => {
    if (!began) return;
    const { plot, x, moved } = began;
    began = null;
    page.select(null);
    if (moved) page.zoom(page.axis.moment(x), page.axis.moment(xIn(plot, event)));
    else page.pointAt(page.axis.moment(x));
  });
  addEventListener("pointercancel", () => { began = null; page.select(null); });
  root.addEventListener("dblclick", (event) => { if (plotOf(event)) page.zoomOut(); });

  let saying = 0;
  root.addEventListener("keydown", (event) => {
    if (!event.target.matches?.(".lag-plot:not(.untimed)") || typing(event)) return;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (by === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    page.keyed = true;
    const words = page.step(by === undefined ? event.key : by * (event.shiftKey ? 10 : 1));
    clearTimeout(saying);
    saying = setTimeout(() => announce(words), 500);
  });
  root.addEventListener("focusout", (event) => {
    if (event.target.matches?.(".lag-plot")) page.keyed = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || typing(event) || document.querySelector("details.menu[open]")) return;
    if (began) { began = null; page.select(null); } else page.zoomOut();
  });
}
