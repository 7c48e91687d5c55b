// The run: from the page itself where it was saved with one, else from the server that the page came from.
import { unzipSync } from "fflate";
import type { Figure } from "./dom";

export interface GraphSummary {
  id: number;
  step: number;
  records: number;
  nodes: number;
  edges: number;
  stacks: number;
}

export interface TimeSummary {
  id: number;
  step: number;
  title: string;
  events: number;
  duration: number;
}

export interface RunFacts {
  program: string;
  weft: string;
  finished?: boolean;
  graphs: GraphSummary[];
  times?: TimeSummary[];
}

/** What ran in a step; times are nanoseconds since its begin. */
export interface TimeDocument {
  duration: number;
  dropped: number;
  cut: boolean;
  left_out: number;
  rows: string[];
  names: string[];
  kinds: string[];
  modules: string[];
  texts: string[];
  irs: string[];
  lines: [number, number, string][];
  events: Record<"name" | "kind" | "begin" | "end" | "row" | "parent" | "line" | "module" | "kernel" | "text", number[]>;
  kernels: {
    name: string;
    /** An earlier launch has computed it. */
    again: number;
    read: number;
    written: number;
    ir: number;
    /** Name, line, shape, share, members, flops. */
    operations: [number, number, string, number, number, number][];
    more: number;
  }[];
  /** Blocks, and values within those of programs, which have a slot (-1: a block). */
  memory: Record<"bytes" | "begin" | "end" | "name" | "line" | "module" | "slot", number[]>;
}

export interface GraphDocument {
  records: number;
  counted: boolean;
  kinds: string[];
  operations: string[];
  types: string[];
  texts: string[];
  lines: [number, number, string][];
  nodes: {
    kind: number[];
    op: number[];
    type: number[];
    line: number[];
    text: number[];
    stack: number[];
    scope: number[];
    size?: number[];
  };
  edges: { from: number[]; to: number[]; gradient: number[] };
  stacks: number;
  scopes: { name: string; class: string; parent: number }[];
  values: Partial<Record<"node" | "low" | "high" | "mean" | "norm" | "zeros" | "bad" | "gradient", Figure[]>>;
}

export interface Rows {
  step: number[];
  columns: Record<string, Record<string, Figure[]>>;
}

export interface Histogram {
  low: Figure;
  high: Figure;
  counts: number[];
  bad: number;
}

export interface Histograms {
  rows: { step: number; layers: Record<string, { weight: Histogram; gradient?: Histogram }> }[];
}

export interface Memory extends Rows {
  places: Record<string, [number, number]>;
  leaks: { line: string; counts: number[]; holders: string[]; place: [number, number] | null }[];
}

export interface Sources {
  files: { name: string; text: string | null }[];
}

const PERIOD_MS = 1000;

/** Where parts come from; `state` says in words whether more will come. */
export class Source {
  state: "saved" | "live" | "finished" | "gone" = "live";
  private versions: Record<string, number> = {};
  private read = new Map<string, { version: number; document: unknown }>();
  private saved: Record<string, Uint8Array> | null = null;

  constructor(private changed: () => void) {}

  async open(): Promise<void> {
    const text = document.getElementById("run")?.textContent?.trim();
    if (text) {
      const content = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      this.saved = unzipSync(content);
      this.state = "saved";
      for (const name of Object.keys(this.saved)) this.versions[name.replace(/\.json$/, "")] = 1;
    } else {
      await this.ask();
      setTimeout(() => this.poll(), PERIOD_MS);
    }
  }

  version(name: string): number {
    return this.versions[name] ?? 0;
  }

  /** A part; the empty document where it is not there yet. */
  async part<T>(name: string, absent: T): Promise<T> {
    const version = this.version(name);
    const known = this.read.get(name);
    if (known && known.version === version) return known.document as T;
    if (version === 0) return absent;
    const document = JSON.parse(await this.text(name)) as T;
    this.read.set(name, { version, document });
    return document;
  }

  private async text(name: string): Promise<string> {
    if (this.saved) return new TextDecoder().decode(this.saved[`${name}.json`]);
    const answer = await fetch(`part/${name}`);
    if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
    return answer.text();
  }

  private async poll(): Promise<void> {
    try {
      await this.ask();
    } catch {
      if (this.state !== "gone") {
        this.state = "gone";
        this.changed();
      }
    }
    setTimeout(() => this.poll(), document.hidden ? 5 * PERIOD_MS : PERIOD_MS);
  }

  private async ask(): Promise<void> {
    const answer = await fetch("versions", { signal: AbortSignal.timeout(10_000) });
    const versions = (await answer.json()) as Record<string, number>;
    const is_new = Object.entries(versions).some(([name, version]) => this.versions[name] !== version);
    this.versions = versions;
    const facts = await this.part<RunFacts | null>("run", null);
    const state = facts?.finished ? "finished" : "live";
    if (is_new || state !== this.state) {
      this.state = state;
      this.changed();
    }
  }
}
