/** Reads the drawing of a workflow as LangGraph writes it. */

const EDGE = /^(\S+) (-->|-\.->|-- .* -->|-\. .* \.->) (\S+?);?$/;
const NODE = /^([\w\\]+)[([{]/;

/** {nodes: [{id, label, group}], edges: [{from, to, dashed}]}; ids are `node` or `group:node`. */
export function parse(text) {
  const nodes = new Map();
  const edges = [];
  const named = (written) => {
    const id = plain(written);
    const parts = id.split(":");
    if (!nodes.has(id)) nodes.set(id, { id, label: parts.at(-1), group: parts.at(-2) ?? null });
    return id;
  };
  for (const line of text.split("\n").map((raw) => raw.trim())) {
    const edge = EDGE.exec(line);
    if (edge) edges.push({ from: named(edge[1]), to: named(edge[3]), dashed: edge[2][1] === "." });
    else if (NODE.test(line)) named(NODE.exec(line)[1]);
  }
  return { nodes: [...nodes.values()], edges };
}

/** Other signs are a backslash and two hex digits. */
function plain(id) {
  return id.replace(/\\([0-9a-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
}
