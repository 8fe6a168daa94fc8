// Whoever signs out leaves nothing on the screen: pages in other tabs go to the login, too.

const CHANNEL = "replview-signed-out";

export function startSignOut() {
  const channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", () => location.replace("/login/"));
  document.addEventListener("submit", (event) => {
    // Not its property: a field may be called so.
    const { pathname } = new URL(event.target.getAttribute("action") ?? "", location);
    if (pathname === "/logout/" || pathname === "/accounts/me/sign-out/") channel.postMessage("");
  });
}
