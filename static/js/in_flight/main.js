// The in-flight page: its parts are drawn by the server and renewed in place, while somebody looks.

import { refreshTimes } from "../ui/shell.js";
import { startFilters } from "./filters.js";
import { Drawer } from "./drawer.js";
import { Regions } from "./regions.js";
import { startSelection } from "./selection.js";

const list = document.getElementById("in-flight");
const drawer = new Drawer(list.dataset.drawer);
const regions = new Regions(list.dataset.now, {
  // The drawer's own words come with the page's.
  changed(fresh) {
    refreshTimes(document.getElementById("main"));
    drawer.renewed(fresh);
  },
});
drawer.onChange = () => regions.renew({ again: true });
startSelection(drawer);
startFilters(() => regions.renew({ again: true }));
regions.start();
