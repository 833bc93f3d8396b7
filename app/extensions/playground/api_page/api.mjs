/** Every operation of /openapi.json with what it takes and tells, and a form that asks it. */

import { hasKey, read, setKey } from "../page/api.mjs";
import { byId, h, put } from "../page/dom.mjs";

const WORDS = {
  playground: ["Playground", "演示页面"],
  key: ["API key", "API 密钥"],
  keyHint: ["Only where the service asks for one; kept until this tab is closed.", "仅在服务要求时需要；关闭此标签页后不再保留。"],
  save: ["Use", "使用"],
  filter: ["Find an operation", "查找接口"],
  parameters: ["Parameters", "参数"],
  body: ["Body", "请求体"],
  required: ["required", "必填"],
  send: ["Send", "发送"],
  stop: ["Stop", "停止"],
  sending: ["Waiting for the answer …", "等待回答……"],
  stopped: ["Stopped.", "已停止。"],
  unreachable: ["The service does not answer.", "服务没有响应。"],
  responses: ["Responses", "响应"],
  schema: ["Schema", "模式"],
  example: ["Example", "示例"],
  cut: ["… the rest is not shown", "……其余内容不显示"],
};
const METHODS = ["get", "post", "put", "patch", "delete"];
const MOST_SHOWN = 200_000;
const chinese = navigator.language.toLowerCase().startsWith("zh");
const t = (key) => WORDS[key][chinese ? 1 : 0];
let spec = {};

/** A schema with what its first references stand for. */
function resolved(schema, depth = 3) {
  if (!schema || typeof schema !== "object") return schema;
  if (schema.$ref && depth) {
    const name = schema.$ref.split("/").at(-1);
    return resolved(spec.components?.schemas?.[name] ?? schema, depth - 1);
  }
  if (Array.isArray(schema)) return schema.map((each) => resolved(each, depth));
  return Object.fromEntries(Object.entries(schema).map(([k, v]) => [k, resolved(v, depth)]));
}

const pretty = (value) => JSON.stringify(value, null, 2);

/** Folded JSON, written when it is opened. */
function folded(title, make) {
  const pre = h("pre");
  const open = ({ target }) => target.open && put(pre, make());
  return h("details", { ontoggle: open }, h("summary", { class: "soft" }, title), pre);
}

const kind = ({ type, anyOf, enum: values, $ref }) =>
  values?.join(" | ") ?? type ?? $ref?.split("/").at(-1) ?? anyOf?.map(kind).join(" | ") ?? "";

function parameter(place, { name, in: where, required, schema = {}, description }) {
  const id = `${place}-${where}-${name}`;
  const hint = schema.default === undefined ? kind(schema) : `${kind(schema)} = ${schema.default}`;
  const label = required ? `${name} (${t("required")})` : name;
  return [
    h("label", { for: id }, label),
    h("input", { id, name, required, placeholder: hint, data: { where } }),
    h("span", { class: "help" }, description ?? schema.description ?? ""),
  ];
}

/** The fields of a request's body: text that is sent as it stands, or a form's files. */
function body(place, [type, { schema, example, examples }]) {
  if (type === "multipart/form-data") {
    const fields = Object.entries(resolved(schema).properties).map(([name, { type: of }]) => {
      const id = `${place}-form-${name}`;
      const isFile = of === "array";
      return [h("label", { for: id }, name), h("input", { id, name, type: isFile ? "file" : "text", multiple: isFile, data: { where: "form" } }), h("span")];
    });
    return [h("h4", {}, t("body"), " ", h("code", {}, type)), h("div", { class: "fields" }, fields)];
  }
  const first = example ?? Object.values(examples ?? {})[0]?.value ?? {};
  const id = `${place}-body`;
  return [
    h("h4", {}, h("label", { for: id }, t("body")), " ", h("code", {}, type)),
    h("textarea", { id, class: "body", value: pretty(first), spellcheck: "false", data: { where: "body", type } }),
    folded(t("schema"), () => pretty(resolved(schema))),
  ];
}

function response([status, { description, content = {} }]) {
  const told = Object.entries(content).map(([type, { schema, example, examples }]) => [
    h("code", {}, type),
    schema && folded(t("schema"), () => pretty(resolved(schema))),
    (example ?? examples) && folded(t("example"), () => pretty(example ?? examples)),
  ]);
  return h("div", {}, h("p", {}, h("strong", {}, status), ` ${description}`), told);
}

/** What the form's fields make of the operation: an address and what goes along. */
function request(form, method, path) {
  const query = new URLSearchParams();
  const headers = new Headers();
  const key = sessionStorage.getItem("selfcrag-key");
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let sent;
  for (const field of form.querySelectorAll("[data-where]")) {
    const { where, type } = field.dataset;
    if (where === "body") {
      headers.set("Content-Type", type);
      sent = field.value;
    } else if (where === "form") {
      sent ??= new FormData();
      const values = field.type === "file" ? field.files : [field.value].filter(Boolean);
      for (const value of values) sent.append(field.name, value);
    } else if (!field.value) continue;
    else if (where === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (where === "header") headers.set(field.name, field.value);
    else query.append(field.name, field.value);
  }
  const asked = query.size ? `${path}?${query}` : path;
  return [asked.replace(/^\//, ""), { method: method.toUpperCase(), headers, body: sent }];
}

/** Shows an answer while it arrives; JSON is set out once it is whole. */
async function show(told, response) {
  const head = `HTTP ${response.status} ${response.headers.get("content-type") ?? ""}\n\n`;
  let text = "";
  for await (const piece of pieces(response)) {
    text += piece;
    const rest = text.length > MOST_SHOWN ? `\n${t("cut")}` : "";
    told.textContent = head + text.slice(0, MOST_SHOWN) + rest;
    if (rest) return;
  }
  try {
    text = pretty(JSON.parse(text));
  } catch {
    // Text as it came.
  }
  told.textContent = head + text.slice(0, MOST_SHOWN);
}

async function* pieces(response) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await reader?.read(); read && !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader?.cancel();
  }
}

function trial(place, method, path, parts) {
  let asking = null;
  const told = h("pre", { class: "told", "aria-live": "polite", hidden: true });
  const stop = h("button", { type: "button", disabled: true, onclick: () => asking?.abort() }, t("stop"));
  const send = async (event) => {
    event.preventDefault();
    asking?.abort();
    const mine = (asking = new AbortController());
    told.hidden = stop.disabled = false;
    told.textContent = t("sending");
    try {
      const [address, init] = request(form, method, path);
      await show(told, await fetch(address, { ...init, signal: mine.signal }));
    } catch {
      if (asking === mine) told.textContent += `\n${t(mine.signal.aborted ? "stopped" : "unreachable")}`;
    }
    if (asking === mine) stop.disabled = true;
  };
  const form = h("form", { onsubmit: send }, parts, h("div", { class: "line" }, h("button", { class: "primary" }, t("send")), stop), told);
  return form;
}

function operation(path, method, told) {
  const place = `${method}${path.replace(/\W+/g, "-")}`;
  const open = ({ target }) => {
    if (!target.open || inside.hasChildNodes()) return;
    const parameters = (told.parameters ?? []).map((each) => parameter(place, each));
    const content = Object.entries(told.requestBody?.content ?? {})[0];
    put(
      inside,
      h("p", {}, told.description ?? ""),
      trial(place, method, path, [
        parameters.length > 0 && [h("h4", {}, t("parameters")), h("div", { class: "fields" }, parameters)],
        content && body(place, content),
      ]),
      h("h4", {}, t("responses")),
      Object.entries(told.responses).map(response),
    );
  };
  const inside = h("div");
  return h(
    "details",
    { class: "operation", id: place, ontoggle: open, data: { words: `${method} ${path} ${told.summary}`.toLowerCase() } },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("span", { class: "path" }, path), h("span", { class: "soft" }, told.summary ?? "")),
    inside,
  );
}

function group({ name, description }) {
  const operations = Object.entries(spec.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]?.tags?.includes(name)).map((method) => operation(path, method, methods[method])),
  );
  return operations.length > 0 && h("section", {}, h("h2", {}, name), h("p", { class: "soft" }, description ?? ""), operations);
}

async function load() {
  byId("trouble").hidden = true;
  try {
    spec = await read("openapi.json");
  } catch (error) {
    byId("trouble").hidden = false;
    byId("trouble").textContent = error.status ? error.message : t("unreachable");
    return;
  }
  byId("version").textContent = spec.info.version;
  byId("about").textContent = spec.info.description;
  const used = Object.values(spec.paths).flatMap((methods) => Object.values(methods).flatMap((it) => it.tags ?? []));
  const others = new Set(used.filter((name) => !spec.tags.some((tag) => tag.name === name)));
  put(byId("operations"), [...spec.tags, ...[...others].map((name) => ({ name }))].map(group));
  const wanted = byId(decodeURIComponent(location.hash.slice(1)));
  if (wanted?.matches("details")) wanted.open = true;
  wanted?.scrollIntoView();
}

function filter({ target }) {
  const words = target.value.toLowerCase().split(/\s+/);
  for (const each of document.querySelectorAll(".operation")) {
    each.hidden = !words.every((word) => each.dataset.words.includes(word));
  }
}

document.documentElement.lang = chinese ? "zh-CN" : "en";
for (const each of document.querySelectorAll("[data-t]")) each.textContent = t(each.dataset.t);
for (const each of document.querySelectorAll("[data-t-hint]")) each.placeholder = t(each.dataset.tHint);
byId("filter").addEventListener("input", filter);
byId("key").placeholder = hasKey() ? "••••••••" : "";
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key").value.trim());
  load();
});
load();
