/** The reader: a document's text over the page, with the part lit that a source names. */

import { latestOf } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { bytes, t } from "./words.mjs";

const latest = latestOf();

/** Opens the document of a part; a part's id begins with its document's. */
export async function open(id) {
  const told = await latest(`documents/${encodeURIComponent(id.split("-")[0])}`);
  if (!told) return;
  const [first, last] = id.split("..");
  const from = told.blocks.findIndex((it) => it.id === first);
  const to = last ? from + Number(last) - Number(first.split("-")[2]) : from;
  const [start, end] = [told.blocks[from]?.start ?? 0, told.blocks[to]?.end ?? 0];
  const signs = Array.from(told.text);
  const [before, part, after] = [[0, start], [start, end], [end]].map((at) => signs.slice(...at).join(""));
  const lit = h("mark", {}, part);
  put(byId("reader-title"), told.title || told.source);
  put(byId("reader-facts"), `${told.source} · ${t("chunks")} ${told.chunks} · ${bytes(told.bytes)}`);
  put(byId("reader-text"), before, lit, after);
  if (!byId("reader").open) byId("reader").showModal();
  const text = byId("reader-text");
  text.focus();
  // Not by scrollIntoView, which moves the page below as well.
  text.scrollTop += lit.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 3;
}

/** A link to a document opens it over what is shown; closed, the address is of the page below. */
export function wire(failed) {
  document.addEventListener("click", (event) => {
    const address = event.target.closest?.("a[href^='#document=']")?.getAttribute("href");
    if (!address || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(address.slice("#document=".length)).catch(failed);
  });
  byId("reader").addEventListener("click", (event) => {
    if (event.target === byId("reader")) byId("reader").close();
  });
  byId("reader").addEventListener("close", () => {
    if (location.hash.startsWith("#document=")) location.hash = "documents";
  });
}
