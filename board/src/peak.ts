// The peak of memory in a step, explained: what was alive, by line and module; what shared memory, was computed again,
// and was spilled.
import { curves } from "./chart";
import type { RunFacts, Source, Sources, TimeDocument } from "./data";
import { bytes, choice, count, duration, el, table } from "./dom";
import { placeOf, snippet } from "./source";

const POINTS = 300;
const MOST_ROWS = 25;

export interface Peak {
  at: number;
  /** Bytes of blocks that the step has taken, at the peak. */
  total: number;
  /** Bytes at the peak by line and by module; those of programs whose values are not alive then are `-2`. */
  byLine: Map<number, number>;
  byModule: Map<number, number>;
  /** Bytes of programs' blocks, and of all values that have lain in them. */
  programs: number;
  values: number;
}

export function peakOf({ memory, names }: TimeDocument): Peak {
  const events: [number, number, number][] = [];
  for (let i = 0; i < memory.bytes.length; i++) {
    const isValue = memory.slot[i] >= 0;
    const change = memory.bytes[i];
    events.push([memory.begin[i], isValue ? 0 : change, isValue ? change : 0]);
    if (memory.end[i] >= 0) events.push([memory.end[i], isValue ? 0 : -change, isValue ? -change : 0]);
  }
  events.sort((a, b) => a[0] - b[0] || a[1] + a[2] - (b[1] + b[2]));
  let [blocks, values, total, most, at] = [0, 0, 0, 0, 0];
  for (const [time, ofBlocks, ofValues] of events) {
    blocks += ofBlocks;
    values += ofValues;
    if (blocks > total || (blocks === total && values > most)) [total, most, at] = [blocks, values, time];
  }
  const byLine = new Map<number, number>();
  const byModule = new Map<number, number>();
  let programs = 0;
  let inAll = 0;
  let alive = 0;
  const add = (i: number) => {
    byLine.set(memory.line[i], (byLine.get(memory.line[i]) ?? 0) + memory.bytes[i]);
    byModule.set(memory.module[i], (byModule.get(memory.module[i]) ?? 0) + memory.bytes[i]);
  };
  for (let i = 0; i < memory.bytes.length; i++) {
    const isThere = memory.begin[i] <= at && (memory.end[i] < 0 || memory.end[i] > at);
    if (memory.slot[i] >= 0) {
      inAll += memory.bytes[i];
      if (isThere) {
        alive += memory.bytes[i];
        add(i);
      }
    } else if (isThere && !names[memory.name[i]]) programs += memory.bytes[i];
    else if (isThere) add(i);
  }
  if (programs > alive) byLine.set(-2, programs - alive);
  return { at, total, byLine, byModule, programs, values: inAll };
}

/** Bytes of blocks at equally spaced moments, by line. */
function overTime({ memory, lines, duration: whole }: TimeDocument, sources: Sources): [number[], Record<string, number[]>] {
  const step = Array.from({ length: POINTS }, (_, i) => (whole * (i + 0.5)) / POINTS);
  const columns: Record<string, number[]> = {};
  for (let i = 0; i < memory.bytes.length; i++) {
    if (memory.slot[i] >= 0) continue;
    const name = memory.line[i] < 0 ? "within programs" : placeOf(lines, memory.line[i], sources);
    const column = (columns[name] ??= new Array<number>(POINTS).fill(0));
    const first = Math.max(0, Math.ceil((memory.begin[i] / whole) * POINTS - 0.5));
    const end = memory.end[i] < 0 ? POINTS : Math.min(POINTS, Math.ceil((memory.end[i] / whole) * POINTS - 0.5));
    for (let at = first; at < end; at++) column[at] += memory.bytes[i];
  }
  return [step.map((ns) => ns / 1e6), columns];
}

export class PeakCard {
  private chosen = "newest";

  constructor(
    private source: Source,
    private again: () => void,
  ) {}

  async cards(sources: Sources): Promise<HTMLElement[]> {
    const facts = await this.source.part<RunFacts | null>("run", null);
    const times = facts?.times ?? [];
    if (!times.length) return [];
    const chosen = times.find(({ id }) => String(id) === this.chosen) ?? times[times.length - 1];
    const document = await this.source.part<TimeDocument | null>(`time/${chosen.id}`, null);
    if (!document?.memory.bytes.length) return [];
    const steps = times.map(({ id, step, title }): [string, string] => [String(id), `${title ? `${title}, ` : ""}${step}`]);
    const pick = choice("step", [["newest", `newest: ${chosen.step}`], ...steps], this.chosen, (id) => {
      this.chosen = id;
      this.again();
    });
    const [step, columns] = overTime(document, sources);
    return [
      this.explained(document, chosen.step, pick, sources),
      curves(step, columns, { title: `taken in step ${chosen.step}, over its milliseconds, by line`, isBytes: true, isStacked: true, most: 10 }),
    ];
  }

  private explained(document: TimeDocument, step: number, pick: HTMLElement, sources: Sources): HTMLElement {
    const peak = peakOf(document);
    const detail = el("div", {});
    const share = (size: number) => `${((100 * size) / Math.max(peak.total, 1)).toFixed(1)} %`;
    const largest = (sizes: Map<number, number>) => [...sizes.entries()].sort((a, b) => b[1] - a[1]).slice(0, MOST_ROWS);
    const lines = largest(peak.byLine).map(([line, size]) => [this.name(document, line, sources, detail), bytes(size), share(size)]);
    const modules = largest(peak.byModule).map(([module, size]) => [document.modules[module] || "(outside)", bytes(size), share(size)]);
    return el(
      "div",
      { class: "card wide", id: "peak" },
      el("h2", {}, `the peak of step ${step}: ${bytes(peak.total)} more than before it, at ${duration(peak.at)}`),
      pick,
      el("ul", {}, ...this.savings(document, peak).map((words) => el("li", {}, words))),
      el("div", { class: "columns" }, table(["line", "at the peak", "share"], lines), table(["module", "at the peak", "share"], modules)),
      detail,
    );
  }

  private name(document: TimeDocument, line: number, sources: Sources, detail: HTMLElement): HTMLElement | string {
    if (line === -2) return "programs: room that no value has at this moment";
    if (line < 0) return "without a line";
    const [file, at] = document.lines[line];
    const words = placeOf(document.lines, line, sources);
    return el("button", { class: "link", onclick: () => detail.replaceChildren(el("h3", {}, words), snippet(sources, file, at)) }, words);
  }

  /** What was reused, recomputed and spilled. */
  private savings(document: TimeDocument, { values, programs }: Peak): string[] {
    const { events, kernels } = document;
    let [again, spilled] = [0, 0];
    let [nsAgain, nsSpilled] = [0, 0];
    for (let i = 0; i < events.kernel.length; i++) {
      if (events.kernel[i] < 0 || document.kinds[events.kind[i]] !== "launch") continue;
      const kernel = kernels[events.kernel[i]];
      if (kernel.again) [again, nsAgain] = [again + 1, nsAgain + events.end[i] - events.begin[i]];
      if (kernel.name === "spill_file") [spilled, nsSpilled] = [spilled + 1, nsSpilled + events.end[i] - events.begin[i]];
    }
    const reused = `reused: values within programs, ${bytes(values)} in all, lay in ${bytes(programs)} at the peak`;
    return [
      values ? reused : "reused: no program had memory of its own",
      again ? `computed again: ${count(again, "kernel")}, which took ${duration(nsAgain)}` : "computed again: nothing",
      spilled ? `spilled: ${count(spilled, "transfer")} to and from the disk, which took ${duration(nsSpilled)}` : "spilled: nothing",
    ];
  }
}
