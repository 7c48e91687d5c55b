// A step's events as typed arrays: lanes of threads and depths, time in itself, what each kind of work took.
import type { TimeDocument } from "../data";

export const PHASES = ["recording", "batching", "scheduling", "compiling", "kernels", "running", "backward", "collectives", "watching"] as const;
export type Phase = (typeof PHASES)[number];

export const WORDS: Record<Phase, string> = {
  recording: "recording: the program's Python, and what it records",
  batching: "batching",
  scheduling: "scheduling: passes, fusing, planning, lowering",
  compiling: "compiling",
  kernels: "kernels",
  running: "running: binding memory, from kernel to kernel",
  backward: "backward: recording the walk",
  collectives: "waiting for other processes",
  watching: "the board itself, which a step without it has not",
};

export interface Lane {
  row: number;
  depth: number;
  /** Events in the order of their begin; none of them overlap. */
  events: Int32Array;
}

export class TimeModel {
  readonly count: number;
  readonly begin: Float64Array;
  readonly end: Float64Array;
  /** Nanoseconds in an event and in nothing within it. */
  readonly self: Float64Array;
  readonly phase: Uint8Array;
  readonly depth: Uint16Array;
  readonly lanes: Lane[];
  /** Of the thread that records: nanoseconds by phase; the time between its events is the program's own. */
  readonly byPhase: Float64Array;
  readonly duration: number;

  constructor(readonly document: TimeDocument) {
    const { events, kinds } = document;
    this.count = events.begin.length;
    this.begin = Float64Array.from(events.begin);
    this.end = Float64Array.from(events.end);
    this.duration = Math.max(document.duration, this.end.reduce((a, b) => Math.max(a, b), 1));
    this.self = new Float64Array(this.count);
    this.depth = new Uint16Array(this.count);
    this.phase = new Uint8Array(this.count);
    const phases = kinds.map((kind) => PHASES.indexOf(phaseOf(kind)));
    const named = new Map([["weft::batch", "batching"], ["weft.board", "watching"]].map(([name, phase]) => [document.names.indexOf(name), PHASES.indexOf(phase as Phase)]));
    for (let i = 0; i < this.count; i++) {
      this.self[i] += this.end[i] - this.begin[i];
      const parent = events.parent[i];
      if (parent >= 0) {
        this.self[parent] -= this.end[i] - this.begin[i];
        this.depth[i] = this.depth[parent] + 1;
      }
      this.phase[i] = named.get(events.name[i]) ?? phases[events.kind[i]];
    }
    this.lanes = this.makeLanes();
    this.byPhase = this.sumPhases();
  }

  private makeLanes(): Lane[] {
    const { row } = this.document.events;
    const found = new Map<number, number[]>();
    for (let i = 0; i < this.count; i++) {
      const key = row[i] * 65536 + this.depth[i];
      const list = found.get(key);
      if (list) list.push(i);
      else found.set(key, [i]);
    }
    return [...found.entries()]
      .sort(([a], [b]) => a - b)
      .map(([key, list]) => ({ row: Math.floor(key / 65536), depth: key % 65536, events: Int32Array.from(list) }));
  }

  private sumPhases(): Float64Array {
    const sums = new Float64Array(PHASES.length);
    const main = Math.max(this.document.rows.indexOf("MainThread"), 0);
    let covered = 0;
    for (let i = 0; i < this.count; i++) {
      if (this.document.events.row[i] !== main) continue;
      if (this.self[i] > 0) sums[this.phase[i]] += this.self[i];
      if (this.depth[i] === 0) covered += this.end[i] - this.begin[i];
    }
    sums[PHASES.indexOf("recording")] += Math.max(this.duration - covered, 0);
    return sums;
  }

  /** The event of a lane at a time; -1 for none. */
  at(lane: Lane, time: number): number {
    const place = firstAfter(lane.events, this.begin, time) - 1;
    if (place < 0) return -1;
    const event = lane.events[place];
    return time <= this.end[event] ? event : -1;
  }

  /** The part of a kernel's time in each line, over all runs: sums, and how often. */
  byLine(): Map<number, { ns: number; count: number; names: Map<number, number> }> {
    const { line, name, kind } = this.document.events;
    const { kinds } = this.document;
    const found = new Map<number, { ns: number; count: number; names: Map<number, number> }>();
    for (let i = 0; i < this.count; i++) {
      if (line[i] < 0 || kinds[kind[i]] !== "operation") continue;
      let spent = found.get(line[i]);
      if (!spent) found.set(line[i], (spent = { ns: 0, count: 0, names: new Map() }));
      const ns = this.end[i] - this.begin[i];
      spent.ns += ns;
      spent.count++;
      spent.names.set(name[i], (spent.names.get(name[i]) ?? 0) + ns);
    }
    return found;
  }

  /** Nanoseconds of operations by the module that recorded them. */
  byModule(): Map<number, number> {
    const { module, kind } = this.document.events;
    const { kinds } = this.document;
    const found = new Map<number, number>();
    for (let i = 0; i < this.count; i++)
      if (kinds[kind[i]] === "operation") found.set(module[i], (found.get(module[i]) ?? 0) + this.end[i] - this.begin[i]);
    return found;
  }
}

/** The first place in a lane whose event begins after a time. */
export function firstAfter(events: Int32Array, begin: Float64Array, time: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin[events[middle]] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function phaseOf(kind: string): Phase {
  switch (kind) {
    case "launch":
    case "operation":
    case "piece":
      return "kernels";
    case "program":
      return "running";
    case "flush":
    case "stage":
      return "scheduling";
    case "compile":
      return "compiling";
    case "walk":
      return "backward";
    case "collective":
      return "collectives";
    default:
      return "recording";
  }
}
