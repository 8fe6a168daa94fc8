// What every page needs: copying, times, themes, menus, dialogs, keys, tooltips, polling.
// Values come from the server escaped; here they are only ever set as text.

import { startAlertToasts } from "./alert-toasts.js";
import { startCopying } from "./copy.js";
import { startKeys } from "./keys.js";
import "./morph.js";
import { startPolling } from "./poll.js";
import { startSignOut } from "./sign-out.js";
import { startTheme } from "./theme-toggle.js";
import { refreshTimes, startTimes } from "./times.js";
import { startTips } from "./tips.js";
import { startPanels } from "./panels.js";

export { announce } from "./announce.js";
export { copyText } from "./copy.js";
export { icon } from "./icon.js";
export { toast } from "./toast.js";
export { refreshTimes, serverNow, showTime } from "./times.js";

startTheme();
startTimes();
startCopying();
startTips();
startPanels();
startKeys();
startPolling();
startAlertToasts();
startSignOut();

document.body.addEventListener("htmx:afterSwap", (event) => refreshTimes(event.detail.target));
document.body.addEventListener("htmx:oobAfterSwap", (event) => refreshTimes(event.detail.target));
