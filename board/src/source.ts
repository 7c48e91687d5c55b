// Source files of the program on the page.
import type { Sources } from "./data";
import { el } from "./dom";

const BEFORE = 3;

/** The lines around one of a source file. */
export function snippet(sources: Sources, file: number, at: number): HTMLElement {
  return listing(sources, file, [at], BEFORE);
}

/** Some lines of a source file with those around them, each with what `beside` says of it. */
export function listing(
  sources: Sources,
  file: number,
  marked: number[],
  around: number,
  beside?: (line: number) => string,
): HTMLElement {
  const text = sources.files[file]?.text;
  if (!text) return el("p", { class: "faint" }, "the source is not in the run");
  const lines = text.split("\n");
  const here = new Set(marked);
  const shown = new Set<number>();
  for (const at of marked) for (let n = Math.max(1, at - around); n <= Math.min(lines.length, at + around); n++) shown.add(n);
  const rows: HTMLElement[] = [];
  let before = 0;
  for (const n of [...shown].sort((a, b) => a - b)) {
    if (before && n > before + 1) rows.push(el("span", { class: "faint" }, "  …\n"));
    before = n;
    const words = beside ? `${beside(n).padStart(18)}  ` : "";
    rows.push(el("span", { class: here.has(n) ? "here" : "" }, `${words}${String(n).padStart(4)}  ${lines[n - 1]}\n`));
  }
  return el("pre", { class: "source" }, ...rows);
}

/** `train.py:12 in step`. */
export function placeOf(lines: [number, number, string][], line: number, sources: Sources): string {
  if (line < 0) return "";
  const [file, at, name] = lines[line];
  return `${sources.files[file]?.name ?? "?"}:${at} in ${name}`;
}
