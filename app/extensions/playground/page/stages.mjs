/** The stages that a run goes through: which steps belong to each, and what it came to in words. */

import { ms, score, t } from "./words.mjs";

const STEPS = {
  question: ["prepare", "decide_retrieval"],
  retrieve: ["retrieve", "retrieve_more", "search_images", "match_image"],
  grade: ["grade", "grade_images"],
  refine: ["refine"],
  web: ["rewrite_query", "search_web", "select_web_strips"],
  draft: ["build_candidates", "draft", "draft_segments", "judge", "select_candidate", "generate", "cite", "abstain", "return_stored", "make_image", "describe_image", "abstain_image"],
  reflect: ["reflect"],
};
const STAGE = new Map(Object.entries(STEPS).flatMap(([stage, steps]) => steps.map((step) => [step, stage])));

/** The stage of a step, by the node of the root graph that it is in. */
export const stageOf = (path) => STAGE.get(path[0]) ?? "other";

/** The stages in the order in which they began: {name, steps, running, at, took}. */
export function stagesOf(run) {
  const stages = new Map();
  for (const step of run.steps) {
    const name = stageOf(step.path);
    if (!stages.has(name)) stages.set(name, { name, steps: [] });
    stages.get(name).steps.push(step);
  }
  return [...stages.values()].map(timed);
}

/** All stages of both runs in their order, for one flow: {name, stage, before}, one may be absent. */
export function sideBySide(stages, former) {
  const own = new Map(stages.map((stage) => [stage.name, stage]));
  const before = new Map(former.map((stage) => [stage.name, stage]));
  const order = [...Object.keys(STEPS), "other"].filter((name) => own.has(name) || before.has(name));
  return order.map((name) => ({ name, stage: own.get(name), before: before.get(name) }));
}

/** Whether a stage is done before the step that a fork begins with. */
export const isBefore = (name, step) => Object.keys(STEPS).indexOf(name) < Object.keys(STEPS).indexOf(step);

function timed({ name, steps }) {
  const running = steps.some((step) => step.took === null);
  const at = Math.min(...steps.map((step) => step.at));
  const end = Math.max(...steps.map((step) => step.at + (step.took ?? 0)));
  return { name, steps, running, at, took: end - at };
}

export const kept = (strips) => (strips ?? []).filter((it) => it.kept).length;
export const best = (documents) => Math.max(...documents.map((it) => it.score));

/** The latest value of a name among the outputs of a stage. */
const latest = (stage, name) => stage.steps.findLast((step) => name in step.detail)?.detail[name];

const revised = (rounds) => t(rounds.length === 2 ? "said.revisedOnce" : "said.revised", rounds.length - 1);

const SAID = {
  question(stage, run) {
    const decided = latest(stage, "retrieval");
    return [
      t("said.read"),
      run.found.standalone_question && t("said.alone"),
      decided && t(decided.decision ? "said.needed" : "said.notNeeded"),
    ];
  },
  retrieve: (stage) => [latest(stage, "documents") && t("said.retrieved", latest(stage, "documents").length)],
  grade(stage, run) {
    const documents = latest(stage, "documents");
    if (!documents) return [];
    const { thresholds, action } = run.found;
    const hold = thresholds && documents.filter((it) => it.score >= thresholds.upper).length;
    return [t("said.graded", documents.length), thresholds && t("said.hold", hold), action && t(`said.${action}`)];
  },
  refine(stage) {
    const strips = latest(stage, "strips");
    return strips ? [t("said.strips", strips.length), t("said.kept", kept(strips))] : [];
  },
  web(stage, run) {
    const pages = latest(stage, "web_results");
    const strips = latest(stage, "strips");
    const isDown = (run.found.degraded ?? []).some((it) => it.component === "web_search");
    return [
      latest(stage, "rewritten_query") && t("said.searched", latest(stage, "rewritten_query")),
      isDown ? t("said.webDown") : pages && t("said.pages", pages.length),
      strips && t("said.kept", kept(strips)),
    ];
  },
  draft(stage, run) {
    const drafts = (latest(stage, "candidates") ?? []).filter((it) => it.answer);
    const writer = latest(stage, "generator") ?? run.answer?.models.generator;
    if (run.found.stopped_by === "no_evidence") return [t("said.abstained")];
    return [
      drafts.length > 1 && t("said.drafts", drafts.length),
      writer && (writer === "extractive" ? t("said.quoted") : t("said.writtenBy", writer)),
    ];
  },
  reflect(_, run) {
    const rounds = run.found.critique ?? [];
    const last = rounds.at(-1);
    if (!last) return [];
    return [
      rounds.length > 1 && revised(rounds),
      last.support !== null && t("said.support", last.support.toFixed(2)),
      t(last.accepted ? "said.accepted" : "said.rejected"),
    ];
  },
};

/** One line of plain words; while it goes on, how far it is. */
export function said(stage, run) {
  if (stage.running) {
    const going = stage.steps.map((step) => run.progress.get(step.name)).findLast(Boolean);
    return t(`doing.${stage.name}`) + (going ? ` ${t("doneOf", going.done, going.total)}` : "");
  }
  return (SAID[stage.name]?.(stage, run) ?? []).filter(Boolean).join(" · ") || t(`flow.${stage.name}`);
}

/** The whole run in a line. */
export function brief(run, stages) {
  const has = (name) => stages.some((stage) => stage.name === name);
  const { documents, strips, critique, degraded } = run.found;
  const isDown = (degraded ?? []).some((it) => it.component === "web_search");
  return [
    has("grade") && documents && t("said.graded", documents.length),
    has("web") && t(isDown ? "said.webDown" : "brief.web"),
    strips?.length && t("said.kept", kept(strips)),
    critique?.length > 1 && revised(critique),
    ms(run.span),
  ].filter(Boolean).join(" · ");
}

/** What the stage was given, in words. */
export function given(stage, run) {
  const { found } = run;
  const counts = {
    grade: found.documents?.length ?? 0,
    refine: found.documents?.length ?? 0,
    draft: kept(found.strips),
    reflect: found.citations?.length ?? 0,
  };
  return t(`in.${stage.name}`, counts[stage.name]);
}

/** The ways that were not taken, once a run is over: {after, title, why}. */
export function untaken(run, stages) {
  const { documents, thresholds, action } = run.found;
  const has = (name) => stages.some((stage) => stage.name === name);
  if (!run.done || !action || !thresholds || !documents?.length) return [];
  const top = score(best(documents));
  const ways = [];
  if (!has("web")) {
    const why = action === "correct" ? t("because.correct", top, score(thresholds.upper)) : t("because.off");
    ways.push({ after: "grade", title: t("whyNotWeb"), why });
  }
  if (action === "incorrect") {
    ways.push({ after: "grade", title: t("whyNotRefine"), why: t("because.incorrect", top, score(thresholds.lower)) });
  }
  return ways;
}
