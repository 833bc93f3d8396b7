/** What users say of an answer. */

import { read } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { refusal, t } from "./words.mjs";

/** Asks what the user thinks of a finished run's answer. */
export function ask(run) {
  const box = byId("feedback");
  if (!run.answer) return put(box);
  const given = run.feedback.map((it) => h("p", { class: "soft" }, t("given", `${it.score}${it.corrected_answer ? ` — ${it.corrected_answer}` : ""}`)));
  const good = h("button", { onclick: () => send(run, { score: 1 }) }, t("good"));
  const bad = h("button", { "aria-expanded": "false" }, t("bad"));
  const text = h("textarea", { rows: 3, id: "corrected" });
  const form = h("form", { hidden: true }, h("label", { for: "corrected" }, t("corrected")), text, h("button", {}, t("send")));
  bad.addEventListener("click", () => {
    form.hidden = !form.hidden;
    bad.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) text.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const corrected = text.value.trim();
    send(run, { score: -1, ...(corrected && { corrected_answer: corrected }) });
  });
  return put(box, h("p", { class: "question" }, t("feedback"), " ", good, bad), form, ...given);
}

async function send(run, json) {
  const box = byId("feedback");
  const buttons = [...box.querySelectorAll("button")];
  const hold = (held) => buttons.forEach((it) => (it.disabled = held));
  box.querySelector("[role=alert]")?.remove();
  hold(true);
  try {
    run.feedback.push(await read(`runs/${run.id}/feedback`, { json }));
    ask(run);
    box.append(h("p", { role: "status", class: "thanks" }, t("thanks")));
  } catch (error) {
    hold(false);
    box.append(h("p", { role: "alert", class: "error" }, refusal(json.corrected_answer ?? "", error)));
  }
}
