// The steps of adding a source: what a browser adds to forms that work without it.

import { startColumns } from "./columns.js";
import { startFollowing } from "./follow.js";
import { startOnce } from "./once.js";
import { startTables } from "./tables.js";

startOnce();
startTables();
startColumns();
startFollowing();
