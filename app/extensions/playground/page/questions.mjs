/** Questions to begin with, made of the documents at hand. */

import { read } from "./api.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import { current } from "./words.mjs";

const LISTED = 100;
const WANTED = 3;
const LONGEST = 5000; // bytes of a document whose headings are fetched, where there are shorter ones
const BATCH_MS = 600_000;
let found = []; // {title, language, headings}

/** Finds documents to ask about: in the page's language first, of them the newest, of them short ones. */
export async function load() {
  const { documents: all } = await read(`documents?${new URLSearchParams({ limit: LISTED, ...documents.chosen() })}`);
  const batch = (it) => Math.floor(Date.parse(it.added_at) / BATCH_MS);
  const rank = (it) => [it.language === current() ? 0 : 1, -batch(it), it.bytes > LONGEST ? 1 : 0, -it.chunks];
  const ranked = all.map((it) => ({ ...it, rank: rank(it) })).sort((a, b) => a.rank.map((value, at) => value - b.rank[at]).find(Boolean) ?? 0);
  found = await Promise.all(ranked.slice(0, WANTED).map(withHeadings));
  render(all.length > 0);
}

async function withHeadings({ id, title, source, language, bytes }) {
  const { blocks } = bytes > LONGEST * 4 ? { blocks: [] } : await read(`documents/${id}`).catch(() => ({ blocks: [] }));
  return { title: title || source, language, headings: [...new Set(blocks.map((it) => it.heading).filter((it) => it !== title && /\p{L}/u.test(it)))] };
}

function render(has) {
  put(byId("examples"), ...found.map((it) => h("li", {}, h("button", { type: "button", class: "example", lang: it.language === "zh" ? "zh-CN" : "en" }, question(it)))));
  byId("examples").hidden = !found.length;
  byId("welcome").classList.toggle("empty", !has);
}

/** A heading that asks is the question; else title and heading are, which finds more than a sentence made of both. */
function question({ title, headings, language }) {
  const asks = [title, ...headings].find((it) => /[?？]$/.test(it));
  const heading = headings[Math.min(1, headings.length - 1)];
  const [colon, mark] = language === "zh" ? ["：", "？"] : [": ", "?"];
  return asks ?? [title, heading].filter(Boolean).join(colon) + mark;
}
