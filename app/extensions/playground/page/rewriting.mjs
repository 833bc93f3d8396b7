/** A draft that is rewritten: what stays stands still, what is taken back is struck where it stood. */

import { h } from "./dom.mjs";

const BY_SENTENCE = new Intl.Segmenter(undefined, { granularity: "sentence" });
const MOST = 60; // sentences compared; a longer draft is one piece

function sentences(text) {
  const found = [...BY_SENTENCE.segment(text)].map((it) => it.segment);
  return found.length > MOST ? [text] : found;
}

/** Citations are added to what stays. */
export const bare = (text) => text.replace(/\s?\[\d{1,3}\]/g, "").trim();
const same = (a, b) => bare(a) === bare(b);

/**
 * The former draft and the one at hand, joined: [{kind, text}], of kind same, removed, added, or
 * waiting where the new draft has not come so far yet (`isWhole` false).
 */
export function joined(before, now, isWhole) {
  const [old, fresh] = [sentences(before), sentences(now)];
  const ways = common(old, fresh);
  const pieces = [];
  const add = (kind, text) => pieces.push({ kind, text });
  let [i, j] = [0, 0];
  while (i < old.length && j < fresh.length && ways[i][j]) {
    if (same(old[i], fresh[j])) [i, j] = (add("same", fresh[j]), [i + 1, j + 1]);
    else if (ways[i + 1][j] === ways[i][j]) add("removed", old[i++]);
    else add("added", fresh[j++]);
  }
  const rest = fresh.slice(j);
  // Half a sentence that begins as a former one does may yet become it.
  const begun = isWhole || !rest.length ? -1 : old.findIndex((it, at) => at >= i && it.trim().startsWith(rest.at(-1).trim()));
  if (begun >= 0) rest.pop();
  const replaced = isWhole ? old.length - i : begun >= 0 ? begun - i : rest.length;
  for (const text of old.slice(i, i + replaced)) add("removed", text);
  for (const text of rest) add("added", text);
  for (const text of old.slice(i + replaced)) add("waiting", text);
  return pieces;
}

/** How many sentences two drafts share from each pair of places on. */
function common(old, fresh) {
  const ways = Array.from({ length: old.length + 1 }, () => new Array(fresh.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      ways[i][j] = same(old[i], fresh[j]) ? ways[i + 1][j + 1] + 1 : Math.max(ways[i + 1][j], ways[i][j + 1]);
    }
  }
  return ways;
}

const TAGS = { removed: "del", added: "ins" };

/** Shows the pieces in `box`; those that are there already keep their elements, and their motion. */
export function show(box, pieces) {
  pieces.forEach(({ kind, text }, index) => {
    const old = box.children[index];
    if (old?.className === kind && old.textContent === text) return;
    if (old?.className === kind && text.startsWith(old.textContent)) old.firstChild.appendData(text.slice(old.textContent.length));
    else if (old) old.replaceWith(h(TAGS[kind] ?? "span", { class: kind }, text));
    else box.append(h(TAGS[kind] ?? "span", { class: kind }, text));
  });
  while (box.children.length > pieces.length) box.lastChild.remove();
}

/** What was changed, by its place in the whole new draft, in characters: {removed: [{at, text}], added: [[start, end]]}. */
export function changes(before, now) {
  const found = { removed: [], added: [] };
  let at = 0;
  for (const { kind, text } of joined(before, now, true)) {
    const end = at + Array.from(text).length;
    if (kind === "removed") found.removed.push({ at, text });
    if (kind === "added") found.added.push([at, end]);
    if (kind !== "removed") at = end;
  }
  return found;
}
