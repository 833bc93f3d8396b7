/** What is known of one run. Live and stored events go through the same `apply`. */

export class Run {
  constructor(question = "") {
    Object.assign(this, { question, id: null, thread: null, workflow: null, last: -1 });
    Object.assign(this, { answer: null, error: null, done: false, lost: null, version: 0 });
    this.begun = performance.now(); // by the clock here: as early as the events say
    this.took = null; // milliseconds, once it is done
    this.steps = []; // as they began: {event, path, name, at, took, detail}
    this.log = []; // starts and ends as they came: {node, phase, took}
    this.open = new Map();
    this.rounds = new Map(); // round -> {text, reason}
    this.found = {};
    this.feedback = [];
    this.events = []; // as they came, with their times: what a replay goes through
    this.progress = new Map(); // step -> {done, total, items}, while it goes on and after it
    this.origin = null; // {run_id, step} of the run it was forked from
    this.drawing = {}; // another one: everything is drawn anew
  }

  /** Takes in an event; one that was taken in before changes nothing. `at` comes with stored ones. */
  apply({ id, name, data, at = data.at_ms }) {
    if (id <= this.last) return;
    this.last = id;
    this.events.push({ id, name, data, at });
    if (at !== undefined) this.begun = Math.min(this.begun, performance.now() - at);
    TAKE[name]?.(this, data, at, id);
  }

  /** The rounds that still stand, oldest first. */
  get standing() {
    return [...this.rounds.values()].filter((round) => round.reason === null);
  }

  get now() {
    return this.steps.findLast((step) => step.took === null) ?? null;
  }

  /** Milliseconds from its start to its end; until then those that the steps span. */
  get span() {
    return this.took ?? this.steps.reduce((most, step) => Math.max(most, step.at + (step.took ?? 0)), 1);
  }
}

/** A copy that has gone through the first events alone; `past`, one that has so for fewer, goes on. */
export function until(run, count, past = null) {
  if (past && past.events.length <= count) {
    for (const event of run.events.slice(past.events.length, count)) past.apply(event);
    return past;
  }
  const before = new Run(run.question);
  Object.assign(before, { id: run.id, thread: run.thread, workflow: run.workflow, origin: run.origin });
  for (const event of run.events.slice(0, count)) before.apply(event);
  before.feedback = run.feedback;
  return before;
}

const TAKE = {
  run(run, data) {
    Object.assign(run, { id: data.run_id, thread: data.thread_id, workflow: data.workflow });
  },
  step(run, data, _, id) {
    const node = data.path.join(":");
    run.log.push({ node, phase: data.phase, took: data.took_ms });
    if (data.phase === "start") begin(run, node, data, id);
    else end(run, node, data);
  },
  progress(run, { step, done, total, item }) {
    const going = run.progress.get(step) ?? { items: [] };
    Object.assign(going, { done, total });
    going.items.push(item);
    run.progress.set(step, going);
    run.version += 1;
  },
  token(run, { round, text }) {
    const draft = run.rounds.get(round) ?? { round, text: "", reason: null };
    draft.text += text;
    run.rounds.set(round, draft);
  },
  retract(run, { round, reason }) {
    const draft = run.rounds.get(round) ?? { round, text: "" };
    // The number may come again: what is struck through keeps its place under a name of its own.
    run.rounds.delete(round);
    run.rounds.set(`${round}.${run.rounds.size}`, { ...draft, reason });
  },
  answer(run, data) {
    run.answer = data;
    Object.assign(run.found, data);
    run.version += 1;
  },
  error(run, data) {
    run.error = data;
  },
  done(run, _, at) {
    Object.assign(run, { done: true, took: at ?? performance.now() - run.begun });
  },
};

function begin(run, node, { step, path, at_ms: at }, event) {
  const begun = { event, node, name: step, path, at, took: null, detail: {} };
  run.steps.push(begun);
  run.open.set(node, [...(run.open.get(node) ?? []), begun]);
}

function end(run, node, { at_ms: at, took_ms: took = 0, detail }) {
  const open = run.open.get(node) ?? [];
  const distance = (step) => Math.abs(step.at - (at - took));
  const ended = open.reduce((a, b) => (distance(b) < distance(a) ? b : a), open[0]);
  if (!ended) return;
  run.open.set(node, open.filter((step) => step !== ended));
  Object.assign(ended, { took, detail });
  if (Object.keys(detail).length) learn(run, detail);
}

/** Lists that grow over the steps are joined, everything else is the latest word. */
function learn(run, detail) {
  const { found } = run;
  const joined = (name, key, more) => {
    found[name] = [...new Map([...(found[name] ?? []), ...more].map((it) => [key(it), it])).values()];
  };
  for (const [name, value] of Object.entries(detail)) {
    if (name === "strips") joined(name, (strip) => strip.id, value);
    else if (name === "degraded") joined(name, (it) => `${it.component} ${it.reason}`, value);
    else if (name === "critique") joined(name, (entry) => entry.round, [value]);
    else found[name] = value;
  }
  run.version += 1;
}
