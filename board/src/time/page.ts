// The view of time: what ran in a step, by thread; from a bar to its operations, lines and IR; time by line.
import type { RunFacts, Source, Sources, TimeDocument, TimeSummary } from "../data";
import { bytes, choice, count, duration, el, grouped, list, table } from "../dom";
import { listing, placeOf, snippet } from "../source";
import { TimeChart } from "./chart";
import { PHASES, TimeModel, WORDS } from "./model";

const NO_SOURCES: Sources = { files: [] };
const TEXTS: Record<string, string> = { flush: "asked for by", module: "class", compile: "kernels", collective: "operation" };
const MOST_CHILDREN = 60;
const MOST_LINES = 200;

export class TimePage {
  readonly element = el("section", { class: "view time-view" });
  chart: TimeChart | null = null;
  private chosen = "newest";
  private known = "";
  private sources: Sources = NO_SOURCES;
  private bar = el("div", { class: "bar" });
  private panel = el("aside", { class: "side", "aria-label": "details" });
  private main = el("div", { class: "time-main" });

  constructor(private source: Source) {
    this.element.append(this.bar, el("div", { class: "stage" }, this.main, this.panel));
  }

  repaint(): void {
    this.chart?.repaint();
  }

  async refresh(): Promise<void> {
    const facts = await this.source.part<RunFacts | null>("run", null);
    const times = facts?.times ?? [];
    if (!times.length) {
      this.main.replaceChildren(el("p", { class: "empty" }, "Nothing has been timed yet: it comes with the first step."));
      return;
    }
    const chosen = times.find(({ id }) => String(id) === this.chosen) ?? times[times.length - 1];
    const known = `${chosen.id} ${times.length}`;
    if (known === this.known) return;
    const isSame = this.known.split(" ")[0] === String(chosen.id);
    this.known = known;
    this.controls(times, chosen);
    if (isSame) return;
    this.sources = await this.source.part("sources", NO_SOURCES);
    const document = await this.source.part<TimeDocument | null>(`time/${chosen.id}`, null);
    if (document) this.show(document);
  }

  private controls(times: TimeSummary[], chosen: TimeSummary): void {
    const words = ({ step, title, duration: ns, events }: TimeSummary) =>
      `${title ? `${title}, ` : ""}step ${step}: ${duration(ns)}, ${count(events, "event")}`;
    this.bar.replaceChildren(
      choice("step", [["newest", `newest: ${words(chosen)}`], ...times.map((time): [string, string] => [String(time.id), words(time)])], this.chosen, (id) => {
        this.chosen = id;
        void this.refresh();
      }),
      el(
        "span",
        { class: "buttons" },
        el("button", { onclick: () => this.chart?.fit(), title: "show all of it (f)" }, "fit"),
        el("button", { onclick: () => this.chart?.zoom(2, this.chart.element.clientWidth / 2), title: "zoom in (+)" }, "+"),
        el("button", { onclick: () => this.chart?.zoom(0.5, this.chart.element.clientWidth / 2), title: "zoom out (-)" }, "−"),
      ),
    );
  }

  private show(document: TimeDocument): void {
    const model = new TimeModel(document);
    this.chart = new TimeChart(model, (event) => this.describe(model, event));
    this.main.replaceChildren(this.phases(model), this.chart.element, this.notes(model), this.lines(model), this.modules(model));
    this.describe(model, -1);
    this.element.dataset.events = String(model.count);
  }

  /** What the step's time went to, as one bar with its legend. */
  private phases({ byPhase }: TimeModel): HTMLElement {
    const whole = byPhase.reduce((a, b) => a + b, 0) || 1;
    const parts = PHASES.map((phase, i) => ({ phase, ns: byPhase[i] })).filter(({ ns }) => ns > 0);
    const swatch = (phase: string) => el("i", { class: `phase-${phase}` });
    return el(
      "div",
      { class: "phases" },
      el("div", { class: "whole" }, ...parts.map(({ phase, ns }) => {
        const part = el("span", { class: `phase-${phase}`, title: `${WORDS[phase]}: ${duration(ns)}` });
        part.style.flexGrow = String(ns / whole);
        return part;
      })),
      el("ul", { class: "legend" }, ...parts.map(({ phase, ns }) =>
        el("li", {}, swatch(phase), `${WORDS[phase]} `, el("b", {}, duration(ns)), ` ${((100 * ns) / whole).toFixed(1)} %`),
      )),
    );
  }

  private notes({ document }: TimeModel): HTMLElement {
    const words = [
      document.left_out ? `${grouped(document.left_out)} of the shortest operations are left out` : "",
      document.dropped ? `${grouped(document.dropped)} events were dropped: there was no room` : "",
      document.cut ? "the step had more events than are recorded: this is its beginning" : "",
    ].filter(Boolean);
    return el("p", { class: "faint notes" }, words.join("; "));
  }

  private describe(model: TimeModel, event: number): void {
    if (event < 0) {
      this.panel.replaceChildren(
        el("h2", {}, "what ran"),
        el("p", {}, "A click on a bar tells its operations, their lines and its IR. The wheel zooms, dragging moves, f shows all."),
        list([["in all", duration(model.duration)], ["events", grouped(model.count)]]),
      );
      return;
    }
    const { document } = model;
    const { events, names, kinds, modules, texts } = document;
    const facts: [string, string][] = [
      ["kind", kinds[events.kind[event]]],
      ["took", duration(model.end[event] - model.begin[event])],
      ["in itself", duration(Math.max(model.self[event], 0))],
      ["begins at", duration(model.begin[event])],
      ["thread", document.rows[events.row[event]]],
    ];
    if (modules[events.module[event]]) facts.push(["module", modules[events.module[event]]]);
    const text = texts[events.text[event]];
    if (text) facts.push([TEXTS[kinds[events.kind[event]]] ?? "with", text]);
    const line = events.line[event];
    this.panel.replaceChildren(
      el("h2", {}, names[events.name[event]]),
      list(facts),
      ...this.line(document, line),
      ...this.kernel(document, events.kernel[event]),
      ...this.around(model, event),
    );
  }

  private line(document: TimeDocument, line: number): Node[] {
    if (line < 0) return [];
    const [file, at] = document.lines[line];
    return [el("h3", {}, placeOf(document.lines, line, this.sources)), snippet(this.sources, file, at)];
  }

  private kernel(document: TimeDocument, number: number): Node[] {
    if (number < 0) return [];
    const kernel = document.kernels[number];
    const rows = kernel.operations.map(([name, line, shape, share, members]) => [
      document.names[name] + (members > 1 ? ` × ${grouped(members)}` : ""),
      shape,
      `${(100 * share).toFixed(0)} %`,
      this.lineButton(document, line),
    ]);
    const ir = document.irs[kernel.ir];
    return [
      el("h3", {}, "its operations, with their shares by estimate"),
      table(["operation", "gives", "share", "line"], rows),
      ...(kernel.more ? [el("p", { class: "faint" }, `and ${kernel.more} more`)] : []),
      list([["reads", bytes(kernel.read)], ["writes", bytes(kernel.written)]]),
      el("h3", {}, "its loop IR"),
      ir ? el("pre", { class: "source ir" }, ir) : el("p", { class: "faint" }, "none: it is no loop"),
    ];
  }

  private lineButton(document: TimeDocument, line: number): HTMLElement | string {
    if (line < 0) return "";
    const holder = el("div", {});
    const [file, at] = document.lines[line];
    const look = () => holder.replaceChildren(...(holder.childElementCount ? [] : [snippet(this.sources, file, at)]));
    const words = placeOf(document.lines, line, this.sources);
    return el("div", {}, el("button", { class: "link", onclick: look }, words), holder);
  }

  private around(model: TimeModel, event: number): Node[] {
    const { events, names } = model.document;
    const link = (one: number) =>
      el("li", {}, el("button", { class: "link", onclick: () => this.chart!.reveal(one) }, names[events.name[one]]), " ",
        el("small", {}, duration(model.end[one] - model.begin[one])));
    const within: number[] = [];
    for (let i = event + 1; i < model.count && model.begin[i] <= model.end[event]; i++) if (events.parent[i] === event) within.push(i);
    within.sort((a, b) => model.end[b] - model.begin[b] - (model.end[a] - model.begin[a]));
    const parent = events.parent[event];
    return [
      ...(parent >= 0 ? [el("h3", {}, "it lies in"), el("ul", {}, link(parent))] : []),
      ...(within.length ? [el("h3", {}, "in it, the longest first"), el("ul", {}, ...within.slice(0, MOST_CHILDREN).map(link))] : []),
      ...(within.length > MOST_CHILDREN ? [el("p", { class: "faint" }, `and ${within.length - MOST_CHILDREN} more`)] : []),
    ];
  }

  /** The program's source with the time of each line's operations beside it, the dearest file first. */
  private lines(model: TimeModel): HTMLElement {
    const { document } = model;
    const spent = model.byLine();
    const whole = [...spent.values()].reduce((sum, { ns }) => sum + ns, 0) || 1;
    const files = new Map<number, Map<number, { ns: number; names: Map<number, number> }>>();
    const dearest = [...spent.entries()].sort((a, b) => b[1].ns - a[1].ns).slice(0, MOST_LINES);
    for (const [line, { ns, names }] of dearest) {
      const [file, at] = document.lines[line];
      const own = files.get(file) ?? files.set(file, new Map()).get(file)!;
      const before = own.get(at);
      if (before) before.ns += ns;
      else own.set(at, { ns, names });
    }
    const cards = [...files.entries()].map(([file, own]) =>
      el("div", {}, el("h3", {}, `${this.sources.files[file]?.name ?? "?"}  ${duration([...own.values()].reduce((sum, { ns }) => sum + ns, 0))}`),
        listing(this.sources, file, [...own.keys()], 1, (at) => {
          const found = own.get(at);
          return found ? `${duration(found.ns)} ${((100 * found.ns) / whole).toFixed(1).padStart(5)} %` : "";
        })),
    );
    return el("div", { class: "card", id: "by-line" }, el("h2", {}, "time of kernels by line that recorded them"),
      ...(cards.length ? cards : [el("p", { class: "faint" }, "no operation of this step has a line")]));
  }

  private modules(model: TimeModel): HTMLElement {
    const spent = [...model.byModule().entries()].sort((a, b) => b[1] - a[1]).slice(0, 60);
    const whole = spent.reduce((sum, [, ns]) => sum + ns, 0) || 1;
    const rows = spent.map(([module, ns]) => [model.document.modules[module] || "(outside)", duration(ns), `${((100 * ns) / whole).toFixed(1)} %`]);
    return el("div", { class: "card", id: "by-module" }, el("h2", {}, "and by module"), table(["module", "time", "share"], rows));
  }
}
