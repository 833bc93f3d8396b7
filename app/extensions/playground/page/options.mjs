/** The form of a run's options, made from their JSON schema. Only what was changed is sent. */

import { byId, h, put } from "./dom.mjs";
import { said, t } from "./words.mjs";

let fields = []; // {pointer, path, value(), reset(), item, error}

const NEEDS_MODEL = new Set(["best"]);

/** Builds the form; what was set or unfolded before stays. Without a language model, presets that need one are closed. */
export function build(schema, changed, hasModel) {
  const kept = fields.length ? given() : {};
  fields = [];
  const open = [...byId("fields").children].filter((it) => it.open).map((it) => it.dataset.group);
  put(byId("fields"), ...groups(schema, kept));
  for (const group of byId("fields").children) group.open = open.includes(group.dataset.group);
  presets(changed, hasModel);
  byId("fields").oninput = () => count(changed);
  byId("option-filter").oninput = filter;
  byId("option-reset").onclick = () => {
    for (const field of fields) field.reset();
    complain([]);
    count(changed);
  };
  filter();
  count(changed);
}

/** The options that differ from their defaults, nested as the schema is. */
export function given() {
  const found = {};
  for (const { path, value } of fields) {
    const it = value();
    if (it === undefined) continue;
    const inner = path.slice(0, -1).reduce((at, name) => (at[name] ??= {}), found);
    inner[path.at(-1)] = it;
  }
  return found;
}

/** Shows problems at their fields; those without a field come back. */
export function complain(errors) {
  for (const field of fields) put(field.error).hidden = true;
  const others = [];
  for (const { pointer, detail } of errors) {
    const field = fields.find((it) => pointer === it.pointer || pointer.startsWith(`${it.pointer}/`));
    if (field) put(field.error, detail).hidden = false;
    else others.push(`${pointer}: ${detail}`);
  }
  for (const { error, input } of fields) input.setAttribute("aria-invalid", String(!error.hidden));
  const first = fields.find(({ error }) => !error.hidden);
  if (first) {
    byId("options").open = true;
    byId("option-filter").value = "";
    filter();
    first.item.closest("details").open = true;
    first.input.focus();
  }
  return others;
}

function count(changed) {
  const set = fields.filter(({ value, item }) => {
    const differs = value() !== undefined;
    item.classList.toggle("set", differs);
    return differs;
  });
  changed(set.length);
  for (const group of byId("fields").children) {
    const own = group.querySelectorAll(".option.set").length;
    group.querySelector(".tag").textContent = own ? t("changed", own) : "";
  }
}

function filter() {
  const wanted = byId("option-filter").value.trim().toLowerCase();
  for (const { item } of fields) item.hidden = !item.textContent.toLowerCase().includes(wanted);
  for (const group of byId("fields").children) {
    const matches = group.querySelector(".option:not([hidden])") !== null;
    group.hidden = group.dataset.group === "preset" || !matches;
    if (wanted) group.open = matches;
  }
}

/** The presets as cards; the one that is chosen fills what is left unset. */
function presets(changed, hasModel) {
  const preset = fields.find(({ path }) => path.join() === "preset");
  const cards = [...preset.input.options].map(({ value }) => {
    const isClosed = NEEDS_MODEL.has(value) && !hasModel;
    const input = h("input", { type: "radio", name: "preset-card", value, disabled: isClosed, checked: preset.input.value === value, onchange: () => {
      preset.set(value);
      count(changed);
    } });
    return h("label", { class: "preset" }, input, h("b", {}, t(`preset.${value}`)), h("span", { class: "help" }, t(isClosed ? "preset.needsModel" : `preset.${value}.hint`)));
  });
  put(byId("presets"), h("fieldset", { class: "presets" }, h("legend", {}, t("presets")), ...cards));
  const { reset } = preset;
  preset.reset = () => {
    reset();
    cards[0].control.checked = true;
  };
}

/** The options as the schema groups them, each group folded under its name. */
function groups(schema, kept) {
  const named = Object.groupBy(Object.entries(schema.properties), ([, option]) => option.group);
  return Object.entries(named).map(([name, options]) =>
    h(
      "details",
      { class: "group", data: { group: name }, hidden: name === "preset" },
      h("summary", {}, said("GROUPS", name, name), " ", h("span", { class: "tag" })),
      h("div", { class: "grid" }, ...items(Object.fromEntries(options), schema, [], kept)),
    ),
  );
}

function items(properties, root, path, kept) {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const whole = schema.$ref ? root.$defs[schema.$ref.split("/").at(-1)] : null;
    if (whole) return items(whole.properties, root, [...path, name], kept[name] ?? {});
    return field([...path, name], schema, kept[name]);
  });
}

function field(path, schema, kept) {
  const id = `option-${path.join("-")}`;
  const described = { id, "aria-describedby": `${id}-help ${id}-error` };
  const kinds = schema.anyOf ?? [schema];
  const kind = kinds.find((it) => it.type !== "null");
  const isNullable = kinds.length > 1;
  const made = controlOf(kind, schema.default, isNullable, described);
  if (kept !== undefined) made.set(kept);
  const name = path.join(".");
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  const item = h(
    "div",
    { class: `option ${made.kind}` },
    h("label", { for: id }, name),
    made.input,
    h("p", { class: "help", id: `${id}-help` }, helpOf(name, schema, kind, isNullable)),
    error,
  );
  fields.push({ pointer: `#/options/${path.join("/")}`, path, item, error, ...made });
  return item;
}

function helpOf(name, schema, kind, isNullable) {
  const parts = [said("HELP", name, schema.description)];
  const least = kind.minimum ?? kind.exclusiveMinimum;
  if (least !== undefined) parts.push(t("from", least, kind.maximum));
  if (kind.type === "array") parts.push(t("oneALine"), (kind.items.enum ?? []).join(", "));
  else if (!isNullable) parts.push(t("isDefault", String(schema.default)));
  return parts.join(" ");
}

function controlOf(kind, initial, isNullable, attributes) {
  if (kind.enum) return choice(kind.enum, initial, isNullable, attributes);
  if (kind.type === "boolean") return check(initial, attributes);
  if (kind.type === "array") return lines(attributes);
  return number(initial, isNullable, attributes);
}

function choice(values, initial, isNullable, attributes) {
  const none = isNullable ? h("option", { value: "" }, t("leftOut")) : null;
  const input = h("select", attributes, none, ...values.map((it) => h("option", { value: it }, it)));
  const set = (value) => (input.value = value ?? "");
  set(initial);
  return {
    input,
    kind: "choice",
    set,
    reset: () => set(initial),
    value: () => (input.value === (initial ?? "") ? undefined : input.value),
  };
}

function check(initial, attributes) {
  const input = h("input", { ...attributes, type: "checkbox", checked: initial });
  return {
    input,
    kind: "check",
    set: (value) => (input.checked = value),
    reset: () => (input.checked = initial),
    value: () => (input.checked === initial ? undefined : input.checked),
  };
}

/** What is no number is sent as it was typed: the service says what is wrong with it. */
function number(initial, isNullable, attributes) {
  const input = h("input", {
    ...attributes,
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    placeholder: isNullable ? t("leftOut") : String(initial),
  });
  const value = () => {
    const typed = input.value.trim();
    if (!typed) return undefined;
    const it = Number(typed);
    if (!Number.isFinite(it)) return typed;
    return it === initial ? undefined : it;
  };
  return { input, kind: "number", value, set: (it) => (input.value = it), reset: () => (input.value = "") };
}

function lines(attributes) {
  const input = h("textarea", { ...attributes, rows: 2 });
  const value = () => {
    const found = input.value.split("\n").map((it) => it.trim()).filter(Boolean);
    return found.length ? found : undefined;
  };
  const set = (it) => (input.value = it.join("\n"));
  return { input, kind: "lines", value, set, reset: () => (input.value = "") };
}
