/** Places a directed graph in layers from top to bottom (Sugiyama 1981). */

const NODE = { width: 166, height: 26 };
const DOT = { width: 12, height: 12 };
const WAY = { width: 8, height: 0 }; // a place where a long edge passes a layer
const GAP = { x: 14, y: 16 };
const SWEEPS = 12;
const TO_THE_MIDDLE = 2;
const END = "__end__";

/** {width, height, nodes: Map(id -> {x, y, width, height}), edges: [{…, points}]}; x, y = middle. */
export function layout({ nodes, edges }) {
  const back = backEdges(nodes, edges);
  const forward = edges.filter((edge) => !back.has(edge));
  const cells = new Map(nodes.map((node) => [node.id, { ...node, ...sizeOf(node), up: [], down: [] }]));
  rank(cells, forward);
  const chains = new Map(forward.map((edge) => [edge, chain(edge, cells)]));
  const layers = layersOf(cells);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) order(layers, sweep % 2 ? "down" : "up");
  const size = place(layers);
  const drawn = edges.map((edge) => ({
    ...edge,
    back: back.has(edge),
    points: ends(chains.get(edge) ?? [edge.from, edge.to].map((id) => cells.get(id)), back.has(edge)),
  }));
  return { ...size, nodes: new Map(nodes.map(({ id }) => [id, cells.get(id)])), edges: drawn };
}

/** From rim to rim: below the first cell and above the last, or at their right sides. */
function ends(cells, isBack) {
  const last = cells.length - 1;
  return cells.map(({ x, y, width, height }, index) => {
    if (isBack) return [x + width / 2, y];
    if (index === 0) return [x, y + height / 2];
    return [x, index === last ? y - height / 2 - 2 : y];
  });
}

const sizeOf = ({ label }) => (label.startsWith("__") ? DOT : NODE);

/** Edges to a node from which the walk has come: they close a loop. */
function backEdges(nodes, edges) {
  const found = new Set();
  const state = new Map();
  const visit = (id) => {
    state.set(id, "open");
    for (const edge of edges.filter(({ from }) => from === id)) {
      if (state.get(edge.to) === "open") found.add(edge);
      else if (!state.has(edge.to)) visit(edge.to);
    }
    state.set(id, "left");
  };
  for (const { id } of nodes) if (!state.has(id)) visit(id);
  return found;
}

/** The longest way from a beginning is a node's layer. */
function rank(cells, edges) {
  const known = new Map();
  const of = (id) => {
    if (!known.has(id)) {
      const before = edges.filter(({ to }) => to === id).map(({ from }) => of(from) + 1);
      known.set(id, Math.max(0, ...before));
    }
    return known.get(id);
  };
  for (const [id, cell] of cells) cell.rank = of(id);
  if (cells.has(END)) cells.get(END).rank = Math.max(...known.values()) + (known.size > 1 ? 1 : 0);
}

/** The edge's cells from layer to layer, with ways between its ends. */
function chain({ from, to }, cells) {
  const [first, last] = [cells.get(from), cells.get(to)];
  const found = [first];
  for (let at = first.rank + 1; at < last.rank; at += 1) {
    const way = { ...WAY, rank: at, group: null, isWay: true, up: [], down: [] };
    cells.set(Symbol("way"), way);
    found.push(way);
  }
  found.push(last);
  found.slice(1).forEach((cell, index) => {
    cell.up.push(found[index]);
    found[index].down.push(cell);
  });
  return found;
}

function layersOf(cells) {
  const layers = [];
  for (const cell of cells.values()) (layers[cell.rank] ??= []).push(cell);
  for (const layer of layers) layer.forEach((cell, index) => (cell.place = index));
  return layers;
}

/** Cells stand near the middle of their neighbours; those of a group stand together, last. */
function order(layers, side) {
  for (const layer of side === "up" ? layers : layers.toReversed()) {
    for (const cell of layer) {
      const near = cell[side];
      cell.wish = near.length ? near.reduce((sum, it) => sum + it.place, 0) / near.length : cell.place;
    }
    layer.sort((a, b) => Boolean(a.group) - Boolean(b.group) || a.wish - b.wish);
    layer.forEach((cell, index) => (cell.place = index));
  }
}

function place(layers) {
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((cell) => cell.height));
    const width = layer.reduce((sum, cell) => sum + cell.width + GAP.x, 0);
    layer.reduce((x, cell) => ((cell.x = x + cell.width / 2), x + cell.width + GAP.x), -width / 2);
    for (const cell of layer) cell.y = y + height / 2 + 8;
    y += height + GAP.y;
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? layers.toReversed() : layers) straighten(layer);
  }
  const cells = layers.flat();
  const left = Math.min(...cells.map((cell) => cell.x - cell.width / 2)) - 12;
  for (const cell of cells) cell.x -= left;
  return { width: Math.max(...cells.map((cell) => cell.x + cell.width / 2)) + 44, height: y };
}

/** Long edges run straight, and nodes stand below each other before edges do. */
function pullOf(cell, other) {
  if (cell.isWay && other.isWay) return 6;
  return cell.isWay || other.isWay ? 0.2 : 2;
}

/** Moves a layer's cells towards their neighbours. */
function straighten(layer) {
  const wish = layer.map((cell) => {
    const near = [...cell.up, ...cell.down];
    const pull = near.reduce((sum, it) => sum + pullOf(cell, it), cell.isWay ? 0 : TO_THE_MIDDLE);
    return near.reduce((sum, it) => sum + it.x * pullOf(cell, it), 0) / pull;
  });
  const room = (a, b) => (a.width + b.width) / 2 + GAP.x;
  const right = [...wish];
  const left = [...wish];
  for (let i = 1; i < layer.length; i += 1) {
    right[i] = Math.max(right[i], right[i - 1] + room(layer[i - 1], layer[i]));
  }
  for (let i = layer.length - 2; i >= 0; i -= 1) {
    left[i] = Math.min(left[i], left[i + 1] - room(layer[i], layer[i + 1]));
  }
  layer.forEach((cell, index) => (cell.x = (right[index] + left[index]) / 2));
}
