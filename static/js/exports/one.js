// One export: the server says over the socket that it went on, the page fetches how far.
// Beside it the page asks every two seconds: a lost socket loses nothing.

import "../ui/shell.js";
import { Clock } from "../ui/clock.js";
import { Connection } from "../ui/connection.js";

const place = document.getElementById("export-now");

if (place?.dataset.socket) {
  const exports = [Number(place.dataset.export)];
  const connection = new Connection(place.dataset.socket, new Clock(), {
    open: () => connection.send({ type: "watch", exports }),
    message: (message) => {
      if (message.type === "went_on" && !document.hidden) window.htmx?.trigger(place, "refresh");
    },
    lost() {},
    ended() {},
  });
}
