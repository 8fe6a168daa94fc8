// Links that are copied whole.

import { copyText } from "../copy.js";
import { toast } from "../toast.js";

export async function copyLink(link) {
  if (await copyText(link)) toast("Link copied", { symbol: "link" });
  else toast("The browser does not let this page copy.", { symbol: "close" });
}
