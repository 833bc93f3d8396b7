/** The chosen workflow as a drawing that lights up while a run goes through it. */

import { byId, put, svg } from "./dom.mjs";
import { inspected } from "./inspector.mjs";
import { layout } from "./layout.mjs";
import { parse } from "./mermaid.mjs";
import * as prompts from "./prompts.mjs";
import { ms, t } from "./words.mjs";

const START = "__start__";
const END = "__end__";
let drawn = null;

/** Draws a workflow anew, with nothing visited. */
export function draw(workflow) {
  const placed = layout(parse(workflow.mermaid));
  const nodes = new Map([...placed.nodes].map(([id, cell]) => [id, node(id, cell)]));
  const edges = placed.edges.map((edge) => ({ ...edge, line: line(edge, placed) }));
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${Math.ceil(placed.width)} ${Math.ceil(placed.height)}`,
      role: "group",
      width: Math.ceil(placed.width),
      height: Math.ceil(placed.height),
      "aria-label": t("graphOf", workflow.name),
    },
    arrow(),
    ...boxes(placed),
    ...edges.map((edge) => edge.line),
    ...[...nodes.values()].map((it) => it.group),
  );
  put(byId("graph"), picture);
  put(byId("inspector"));
  drawn = { name: workflow.name, nodes, edges, seen: 0, ends: 0, dirty: new Set(), groups: groupsOf(placed) };
  walk(START, "end");
  centre(placed.nodes.get(START));
}

/** The drawing is as wide as its labels need: its beginning is in the middle of what is seen. */
function centre(start) {
  const box = byId("graph");
  if (start) box.scrollLeft = start.x + 8 - box.clientWidth / 2;
}

/** Brings the drawing up to what the run has gone through. */
export function render(run, workflow) {
  if (!workflow) return;
  if (drawn?.name !== workflow.name || drawn.drawing !== run.drawing) {
    draw(workflow);
    drawn.drawing = run.drawing;
  }
  drawn.run = run;
  for (; drawn.seen < run.log.length; drawn.seen += 1) {
    const { node: id, phase, took } = run.log[drawn.seen];
    if (drawn.groups.has(id)) ofGroup(id, phase);
    else walk(id, phase, took ?? 0);
  }
  if (run.done && !drawn.ended) {
    drawn.ended = true;
    for (const it of drawn.nodes.values()) it.running = 0;
    for (const id of drawn.nodes.keys()) drawn.dirty.add(id);
    if (run.answer) walk(END, "start");
  }
  for (const id of drawn.dirty) show(drawn.nodes.get(id));
  drawn.dirty.clear();
}

/** A subgraph begins where its start is passed and ends where its end is. */
function ofGroup(id, phase) {
  walk(`${id}:${phase === "start" ? START : END}`, "start");
  walk(`${id}:${phase === "start" ? START : END}`, "end");
}

function walk(id, phase, took = 0) {
  const it = drawn.nodes.get(id);
  if (!it) return;
  drawn.dirty.add(id);
  if (phase === "start") {
    it.running += 1;
    enter(id);
    if (id === END) Object.assign(it, { running: 0, visits: 1 });
  } else {
    drawn.ends += 1;
    Object.assign(it, { running: Math.max(0, it.running - 1), leftAt: drawn.ends, leftBy: null });
    it.visits += 1;
    it.took += took;
  }
}

/** Which edges led here: from nodes that ended and were left by no other way since. */
function enter(id) {
  for (const edge of drawn.edges.filter(({ to }) => to === id)) {
    const from = drawn.nodes.get(edge.from);
    if (!from.leftAt || (from.leftBy !== null && from.leftBy !== drawn.ends)) continue;
    from.leftBy = drawn.ends;
    edge.line.classList.add("taken");
    edge.line.parentNode?.insertBefore(edge.line, drawn.nodes.get(START).group);
  }
}

function show(it) {
  it.group.classList.toggle("running", it.running > 0);
  it.group.classList.toggle("visited", it.visits > 0);
  if (it.time && it.visits) {
    it.group.setAttribute("role", "button");
    it.group.setAttribute("tabindex", 0);
  }
  if (!it.time) return;
  const times = it.visits > 1 ? `${it.visits}× ` : "";
  it.time.textContent = it.visits ? times + ms(it.took) : "";
}

function node(id, cell) {
  const state = { id, running: 0, visits: 0, took: 0, leftAt: 0, leftBy: null };
  const { x, y, width, height } = cell;
  if (cell.label.startsWith("__")) {
    const dot = svg("circle", { cx: x, cy: y, r: width / 2 });
    return { ...state, group: svg("g", { class: "node dot", "data-node": id }, dot), time: null };
  }
  const left = x - width / 2;
  const box = svg("rect", { x: left, y: y - height / 2, width, height, rx: 6 });
  const name = svg("text", { x: left + 9, y: y + 4 }, cell.label);
  const time = svg("text", { x: left + width - 8, y: y + 4, class: "time" });
  const on = { onclick: () => inspect(id), onkeydown: (event) => (event.key === "Enter" || event.key === " ") && inspect(id, event) };
  return { ...state, time, group: svg("g", { class: "node", "data-node": id, ...on }, box, name, time) };
}

/** What the visits of a node found, below the drawing. */
function inspect(id, event) {
  event?.preventDefault();
  const visits = (drawn.run?.steps ?? []).filter((step) => step.node === id);
  put(byId("inspector"), ...visits.map((step) => inspected(step, drawn.run.span)));
  if (drawn.run) prompts.fill(byId("inspector"), drawn.run);
}

function line({ points, dashed, back }, placed) {
  const path = back ? loop(points, placed) : through(points);
  const kind = `edge${dashed ? " maybe" : ""}`;
  return svg("path", { d: path, class: kind, "marker-end": "url(#arrow)" });
}

/** Through the points, upright in each of them. */
function through(points) {
  return points.slice(1).reduce((path, [x, y], i) => {
    const [x0, y0] = points[i];
    const middle = (y0 + y) / 2;
    return `${path} C${x0} ${middle} ${x} ${middle} ${x} ${y}`;
  }, `M${points[0]}`);
}

/** Back up, around the right side. */
function loop([[x0, y0], [x, y]], placed) {
  const out = Math.min(Math.max(x0, x) + 12 + Math.abs(y - y0) * 0.25, placed.width - 2);
  return `M${x0} ${y0} C${out} ${y0} ${out} ${y} ${x + 3} ${y}`;
}

function arrow() {
  const marker = { id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, orient: "auto" };
  const size = { markerWidth: 6, markerHeight: 6, markerUnits: "userSpaceOnUse" };
  const tip = svg("path", { d: "M0 0 6 3 0 6z", fill: "context-stroke" });
  return svg("defs", {}, svg("marker", { ...marker, ...size }, tip));
}

const groupsOf = ({ nodes }) => new Set([...nodes.values()].map((it) => it.group).filter(Boolean));

/** A box and its name around the nodes of each subgraph. */
function boxes(placed) {
  return [...groupsOf(placed)].flatMap((name) => {
    const inside = [...placed.nodes.values()].filter((it) => it.group === name);
    const [left, right] = [
      Math.min(...inside.map((it) => it.x - it.width / 2)) - 12,
      Math.max(...inside.map((it) => it.x + it.width / 2)) + 32,
    ];
    const [top, bottom] = [Math.min(...inside.map((it) => it.y)) - 11, Math.max(...inside.map((it) => it.y)) + 11];
    const size = { width: right - left, height: bottom - top };
    return [
      svg("rect", { class: "box", x: left, y: top, ...size, rx: 10 }),
      svg("text", { class: "boxname", x: right - 10, y: top + 16, "text-anchor": "end" }, name),
    ];
  });
}
