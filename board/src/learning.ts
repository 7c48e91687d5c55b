// The learning view: losses, norms by layer, dead units, histograms, and the first value that is not finite.
import { curves } from "./chart";
import type { GraphDocument, Histogram, Histograms, Rows, RunFacts, Source, Sources } from "./data";
import { choice, el, figure, table, themed, type Figure } from "./dom";
import { lineOf } from "./graph/compare";
import { snippet } from "./source";

const NO_ROWS: Rows = { step: [], columns: {} };
const MOST_ANCESTORS = 12;

export class LearningPage {
  readonly element = el("section", { class: "view" });
  private known = "";
  private layer = "";

  constructor(private source: Source) {}

  repaint(): void {
    this.known = "";
    if (this.element.isConnected) void this.refresh();
  }

  async refresh(): Promise<void> {
    const known = ["steps", "histograms", "run"].map((name) => this.source.version(name)).join(" ");
    if (known === this.known) return;
    this.known = known;
    const rows = await this.source.part("steps", NO_ROWS);
    const histograms = await this.source.part<Histograms>("histograms", { rows: [] });
    const { step, columns } = rows;
    if (!step.length) {
      this.element.replaceChildren(el("p", { class: "empty" }, "No step yet: one ends with optimizer.step() or board.step()."));
      return;
    }
    const cards = el("div", { class: "charts" });
    const alarm = await this.firstBad();
    if (alarm) cards.append(alarm);
    if (columns.scalars) cards.append(curves(step, columns.scalars, { title: "losses and other numbers" }));
    const dead = this.deadUnits(columns.dead ?? {});
    if (dead) cards.append(dead);
    for (const [group, title] of [
      ["gradient", "norms of gradients, by parameter"],
      ["weight", "norms of weights, by parameter"],
      ["activation", "norms of what modules give"],
    ])
      if (columns[group] && Object.keys(columns[group]).length)
        cards.append(curves(step, columns[group], { title, isLogarithmic: true }));
    const missing = this.withoutGradient(columns);
    if (missing) cards.append(missing);
    if (histograms.rows.length) cards.append(this.histograms(histograms));
    const { scrollTop } = this.element.parentElement ?? { scrollTop: 0 };
    this.element.replaceChildren(cards);
    if (this.element.parentElement) this.element.parentElement.scrollTop = scrollTop;
  }

  private deadUnits(dead: Record<string, Figure[]>): HTMLElement | null {
    const rows = Object.entries(dead)
      .map(([name, counts]): [string, number] => [name, Number(counts[counts.length - 1] ?? 0)])
      .filter(([, count]) => count > 0)
      .sort((a, b) => b[1] - a[1]);
    if (!rows.length) return null;
    return el(
      "div",
      { class: "card alarm" },
      el("h2", {}, "dead units"),
      el("p", {}, "Units whose weights have had a gradient of zero in all of the last steps:"),
      table(["weight", "dead units"], rows.map(([name, count]) => [name, String(count)])),
    );
  }

  private withoutGradient(columns: Rows["columns"]): HTMLElement | null {
    const having = columns.gradient ?? {};
    const names = Object.keys(columns.weight ?? {}).filter((name) => !having[name]?.some((value) => value !== null));
    if (!names.length) return null;
    return el("div", { class: "card" }, el("h2", {}, "parameters that never had a gradient"), el("ul", {}, ...names.map((name) => el("li", {}, name))));
  }

  /** The first graph in which a value is not finite, and in it the first operation that made one of finite ones. */
  private async firstBad(): Promise<HTMLElement | null> {
    const facts = await this.source.part<RunFacts | null>("run", null);
    const sources = await this.source.part<Sources>("sources", { files: [] });
    for (const summary of facts?.graphs ?? []) {
      const graph = await this.source.part<GraphDocument | null>(`graph/${summary.id}`, null);
      if (!graph?.values.bad?.some((bad) => Number(bad) > 0)) continue;
      return this.chain(graph, summary.step, sources);
    }
    return null;
  }

  private chain(graph: GraphDocument, step: number, sources: Sources): HTMLElement {
    const rowOf = new Map((graph.values.node ?? []).map((node, row) => [node as number, row]));
    const isBad = (node: number) => Number(graph.values.bad![rowOf.get(node) ?? -1] ?? 0) > 0;
    const reads = new Map<number, number[]>();
    graph.edges.from.forEach((from, i) => {
      if (graph.edges.gradient[i]) return;
      const to = graph.edges.to[i];
      reads.set(to, [...(reads.get(to) ?? []), from]);
    });
    const bad = [...rowOf.keys()].filter(isBad);
    const first = bad.find((node) => !(reads.get(node) ?? []).some(isBad)) ?? bad[0];
    const chain: number[] = [];
    const waiting = [first];
    while (waiting.length && chain.length < MOST_ANCESTORS) {
      const node = waiting.shift()!;
      if (chain.includes(node)) continue;
      chain.push(node);
      waiting.push(...(reads.get(node) ?? []));
    }
    const line = graph.nodes.line[first];
    const rows = chain.map((node) => {
      const row = rowOf.get(node);
      const of = (name: "low" | "high" | "mean" | "bad") => (row === undefined ? "–" : figure(graph.values[name]?.[row]));
      const name = el("span", { class: isBad(node) ? "bad" : "" }, graph.operations[graph.nodes.op[node]]);
      return [name, graph.types[graph.nodes.type[node]], of("low"), of("high"), of("mean"), of("bad"), lineOf(graph, node, sources)];
    });
    return el(
      "div",
      { class: "card alarm wide", id: "first-bad" },
      el("h2", {}, `step ${step}: ${graph.operations[graph.nodes.op[first]]} made a value that is not finite`),
      el("p", {}, lineOf(graph, first, sources)),
      ...(line >= 0 ? [snippet(sources, graph.lines[line][0], graph.lines[line][1])] : []),
      el("h3", {}, "it, and what it was computed from"),
      table(["operation", "type", "min", "max", "mean", "not finite", "line"], rows),
    );
  }

  private histograms({ rows }: Histograms): HTMLElement {
    const names = [...new Set(rows.flatMap(({ layers }) => Object.keys(layers)))];
    if (!names.includes(this.layer)) this.layer = names[0] ?? "";
    const holder = el("div", {});
    const draw = () => {
      const parts = (["weight", "gradient"] as const).map((kind) => {
        const series = rows.flatMap(({ step, layers }): [number, Histogram][] => {
          const found = layers[this.layer]?.[kind];
          return found ? [[step, found]] : [];
        });
        return series.length ? el("div", {}, el("h3", {}, words(kind, series)), heat(series)) : null;
      });
      holder.replaceChildren(...parts.filter((part): part is HTMLDivElement => part !== null));
    };
    draw();
    const pick = choice("parameter", names.map((name) => [name, name]), this.layer, (name) => {
      this.layer = name;
      draw();
    });
    return el("div", { class: "card wide" }, el("h2", {}, "histograms"), pick, holder);
  }
}

function range(series: [number, Histogram][]): [number, number] {
  const ends = series.flatMap(([, { low, high }]) => [low, high]).filter((end): end is number => typeof end === "number");
  return [ends.reduce((a, b) => Math.min(a, b), Infinity), ends.reduce((a, b) => Math.max(a, b), -Infinity)];
}

function words(kind: string, series: [number, Histogram][]): string {
  const [low, high] = range(series);
  const last = series[series.length - 1][0];
  return `${kind}s from ${figure(low)} (below) to ${figure(high)} (above), steps ${series[0][0]} to ${last} from left to right`;
}

const ROWS = 64;

/** A column for each step, dark where there are many elements. */
function heat(series: [number, Histogram][]): HTMLElement {
  const canvas = el("canvas", { class: "heat", width: series.length, height: ROWS });
  const [low, high] = range(series);
  const context = canvas.getContext("2d")!;
  context.fillStyle = themed("accent");
  const span = high - low || 1;
  series.forEach(([, histogram], x) => {
    if (typeof histogram.low !== "number" || typeof histogram.high !== "number") return;
    const cells = new Float64Array(ROWS);
    const width = (histogram.high - histogram.low) / histogram.counts.length;
    histogram.counts.forEach((times, bin) => {
      const from = ((histogram.low as number) + bin * width - low) / span;
      const to = from + width / span;
      const [first, last] = [Math.floor(from * ROWS), Math.max(Math.ceil(to * ROWS), Math.floor(from * ROWS) + 1)];
      for (let cell = first; cell < last; cell++) if (cell >= 0 && cell < ROWS) cells[cell] += times / (last - first);
    });
    const most = Math.max(...cells) || 1;
    cells.forEach((times, cell) => {
      context.globalAlpha = Math.sqrt(times / most);
      context.fillRect(x, ROWS - 1 - cell, 1, 1);
    });
  });
  return canvas;
}
