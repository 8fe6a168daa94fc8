// One polite live region: it speaks when a state changes, never because a number moved.

let announced = null;

export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

// The status sentence carries its state in data-say.
export function announceSentence() {
  const sentence = document.getElementById("sentence");
  if (!sentence) return;
  const state = sentence.dataset.say;
  if (announced !== null && announced !== state) announce(sentence.querySelector("h1").textContent);
  announced = state;
}

announceSentence();
document.body.addEventListener("htmx:oobAfterSwap", announceSentence);
