/** An answer taken along: copied, linked to, exported as Markdown. */

import { isQuoted } from "./answer.mjs";
import { byId } from "./dom.mjs";
import { inOrder, numbering, renumbered } from "./sources.mjs";
import { score, t } from "./words.mjs";

/** The answer with its verdict and sources, as Markdown. */
export function markdown(run) {
  const { verdict, action } = run.answer;
  const numbers = numbering(run.answer);
  const text = renumbered(run.answer, numbers);
  const said = isQuoted(run.answer) ? quotation(text, "") : text;
  const judged = [t(`verdict.${verdict}`), action && t(`action.${action}`)].filter(Boolean).join(" · ");
  const sources = inOrder(run.answer, numbers).map((it) => `${it.number}. ${escaped(it.title || it.source)} (${escaped(it.source)}, ${score(it.score)})\n\n${quotation(it.text, "   ")}`);
  const parts = [`# ${escaped(run.question)}`, said, `*${judged}*`, sources.length && `## ${t("citations")}`, ...sources];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

const quotation = (text, indent) => text.split("\n").map((line) => `${indent}> ${line}`).join("\n");
const escaped = (text) => text.replace(/[\\`*_[\]<>#]/g, "\\$&").replace(/\n/g, " ");

let current = () => null;

/** `run` is what gives the run that is shown. */
export function wire(run) {
  current = run;
}

/** What a button below the answer does. */
export function act(id) {
  const run = current();
  if (id === "copy-answer") return copy(renumbered(run.answer));
  if (id === "copy-link") return copy(new URL(`#run=${run.id}`, location.href).href);
  return save(markdown(run), `${run.id.slice(0, 8)}.md`, "text/markdown");
}

async function copy(text) {
  await navigator.clipboard.writeText(text).catch(() => selected(text));
  byId("copied").textContent = t("copied");
}

/** Where the clipboard is closed to scripts, as over plain HTTP. */
function selected(text) {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "unseen";
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

/** Saves a file made here. */
export function save(content, name, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
