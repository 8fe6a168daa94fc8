// Row history: lines open where they stand, and moments are typed in local time.

import { announce } from "../ui/announce.js";
import { refreshTimes } from "../ui/times.js";

document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("[data-open]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const line = link.closest(".row-line");
  const place = line.querySelector(".row-whole");
  const opens = link.getAttribute("aria-expanded") !== "true";
  if (opens && !place.childElementCount && !(await load(link, place))) return;
  link.setAttribute("aria-expanded", String(opens));
  line.classList.toggle("open", opens);
  place.hidden = !opens;
});

async function load(link, place) {
  try {
    const answer = await fetch(link.dataset.open, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...parsed.body.childNodes);
    refreshTimes(place);
    return true;
  } catch {
    announce("The change could not be loaded.");
    location.assign(link.href);
    return false;
  }
}

// Without this the field says and takes UTC.
const two = (number) => String(number).padStart(2, "0");

function local(moment) {
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

function zone(moment) {
  const minutes = -moment.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

const form = document.querySelector("[data-as-of]");
if (form) {
  const field = form.elements.as_of;
  const shown = field.dataset.moment ? new Date(field.dataset.moment) : null;
  if (shown && !Number.isNaN(shown.getTime())) field.value = local(shown);
  form.querySelector("[data-zone]").textContent = zone(shown ?? new Date());
  form.addEventListener("submit", () => {
    const bare = /^\s*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(:\d\d(\.\d+)?)?)\s*$/.exec(field.value);
    const moment = bare ? new Date(`${bare[1]}T${bare[2]}`) : null;
    if (moment && !Number.isNaN(moment.getTime())) field.value = moment.toISOString();
  });
}
