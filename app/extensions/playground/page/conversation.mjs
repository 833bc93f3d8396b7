/** The transcript: earlier turns of the conversation stay above the one at hand. */

import { read } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { bare } from "./rewriting.mjs";
import { t } from "./words.mjs";

let shown = { thread: null, turns: [] };

/** Shows the turns before this run: those that are known, or the ones that the service has kept. */
export async function before(run, former) {
  if (former?.answer && former.thread === run.thread && run.thread) {
    const turns = shown.thread === run.thread ? shown.turns.filter((it) => it.id !== former.id) : [];
    shown = { thread: run.thread, turns: [...turns, turnOf(former)] };
    return render(run);
  }
  if (shown.thread === run.thread && shown.turns.some((it) => it.id === run.id)) {
    shown.turns = shown.turns.slice(0, shown.turns.findIndex((it) => it.id === run.id));
    return render(run);
  }
  if (shown.thread === run.thread && shown.thread !== null) return render(run);
  shown = { thread: run.thread, turns: [] };
  render(run);
  if (!run.thread) return null;
  const kept = await read(`threads/${encodeURIComponent(run.thread)}`).catch(() => ({ messages: [] }));
  if (shown.thread !== run.thread) return null;
  const at = kept.messages.findIndex((it) => it.run_id === run.id);
  shown.turns = paired(at < 0 ? kept.messages : kept.messages.slice(0, at)).filter((it) => it.id !== run.id);
  return render(run);
}

/** Nothing was said before. */
export function clear() {
  shown = { thread: null, turns: [] };
  render();
}

export function render() {
  put(byId("turns"), ...shown.turns.map(turn));
}

const turnOf = ({ id, question, answer }) => ({ id, question, answer: answer.answer, verdict: answer.verdict });

function paired(messages) {
  const questions = messages.filter((it) => it.role === "user");
  const answers = new Map(messages.filter((it) => it.role === "assistant").map((it) => [it.run_id, it.content]));
  return questions.map((it) => ({ id: it.run_id, question: it.content, answer: answers.get(it.run_id) ?? "" }));
}

function turn({ id, question, answer, verdict }) {
  const judged = verdict ? h("span", { class: `chip ${verdict}` }, t(`verdict.${verdict}`)) : null;
  const opened = h("a", { class: "soft", href: `#run=${id}` }, t("openRun"));
  return h(
    "article",
    { class: "past" },
    h("h2", {}, question),
    h("p", { class: "past-answer" }, bare(answer)),
    h("p", { class: "line" }, judged, opened),
  );
}
