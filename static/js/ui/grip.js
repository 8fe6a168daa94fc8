// The grip of a drawer.

// On a phone: a tap or a drag makes the sheet tall, low, or closes nothing.
export function wireGrip(grip, box) {
  let from = null;
  grip.addEventListener("click", () => { if (from === null) box.classList.toggle("tall"); from = null; });
  grip.addEventListener("pointerdown", (event) => { grip.setPointerCapture(event.pointerId); grip.dataset.y = event.clientY; });
  grip.addEventListener("pointerup", (event) => {
    const by = event.clientY - Number(grip.dataset.y);
    if (Math.abs(by) < 12) return;
    from = by;
    box.classList.toggle("tall", by < 0);
  });
}
