// When all is done the live page takes this one's place, so that Back does not come here again.

export function startFollowing() {
  const place = document.querySelector("[data-draft]");
  if (!place) return;
  const look = () => {
    const following = place.querySelector("[data-follow]")?.dataset.follow;
    if (following) location.replace(following);
  };
  document.body.addEventListener("htmx:afterSwap", look);
  look();
}
