// Elements by function calls. Text goes in as text only: what comes from the user's program is never read as HTML.

type Child = Node | string | null | undefined;
type Props = Record<string, string | number | boolean | EventListener | undefined>;

/** An element with attributes, listeners (`onclick`) and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child != null));
  return element;
}

/** A `select` of labels by value. */
export function choice(
  label: string,
  options: [string, string][],
  chosen: string,
  changed: (value: string) => void,
): HTMLLabelElement {
  const select = el("select", { "aria-label": label, onchange: () => changed(select.value) });
  select.append(...options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "choice" }, el("span", {}, label), select);
}

/** A table of texts; cells may be elements. */
export function table(head: string[], rows: Child[][]): HTMLTableElement {
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", {}, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))))),
  );
}

/** A colour of the theme. */
export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function bytes(size: number): string {
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const)
    if (Math.abs(size) >= scale) return `${(size / scale).toFixed(1)} ${unit}`;
  return `${Math.round(size)} B`;
}

/** Nanoseconds in words. */
export function duration(ns: number): string {
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]] as const)
    if (Math.abs(ns) >= scale) return `${Number((ns / scale).toPrecision(3))} ${unit}`;
  return `${Math.round(ns)} ns`;
}

const GROUPED = new Intl.NumberFormat("en-US");

/** `1,234`. */
export function grouped(n: number): string {
  return n < 1000 ? String(n) : GROUPED.format(n);
}

export function count(n: number, word: string): string {
  return `${grouped(n)} ${n === 1 ? word : word === "box" ? "boxes" : `${word}s`}`;
}

export function figure(value: Figure): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** Names and what they are, beside each other. */
export function list(facts: [string, string][]): HTMLElement {
  return el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A number of the run: what is not finite comes as its name. */
export type Figure = number | "nan" | "inf" | "-inf" | null | undefined;

export function asNumber(value: Figure): number | null {
  if (value === null || value === undefined || value === "nan") return null;
  return typeof value === "string" ? null : value;
}
