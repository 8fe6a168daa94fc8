// The transaction's own page: more changes and whole values on demand.

import { wireChanges } from "./drawer.js";

wireChanges(document.querySelector("[data-changes]"));
